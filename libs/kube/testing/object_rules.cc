#include "libs/kube/testing/object_rules.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "libs/kube/testing/type_rules.h"

namespace capstan::kube::testing {
namespace {

constexpr char kImmutable[] = "field is immutable";

void DropNulls(Json* value) {
  if (value->is_object()) {
    for (auto it = value->begin(); it != value->end();) {
      if (it->is_null()) {
        it = value->erase(it);
      } else {
        DropNulls(&*it);
        ++it;
      }
    }
  } else if (value->is_array()) {
    for (Json& item : *value) DropNulls(&item);
  }
}

bool IsLowerAlnum(char c) {
  return absl::ascii_islower(static_cast<unsigned char>(c)) ||
         absl::ascii_isdigit(static_cast<unsigned char>(c));
}

bool IsDnsLabel(absl::string_view name) {
  return !name.empty() && name.size() <= 63 && IsLowerAlnum(name.front()) &&
         IsLowerAlnum(name.back()) &&
         std::all_of(name.begin(), name.end(), [](char c) { return IsLowerAlnum(c) || c == '-'; });
}

bool IsDnsSubdomain(absl::string_view name) {
  if (name.empty() || name.size() > 253) return false;
  for (const absl::string_view part : absl::StrSplit(name, '.')) {
    if (part.empty() || !IsLowerAlnum(part.front()) || !IsLowerAlnum(part.back())) return false;
    for (const char c : part) {
      if (!IsLowerAlnum(c) && c != '-') return false;
    }
  }
  return true;
}

// Of a label's key: `prefix/name`, or `name`.
bool IsQualifiedName(absl::string_view key) {
  const size_t slash = key.find('/');
  if (slash != absl::string_view::npos) {
    if (!IsDnsSubdomain(key.substr(0, slash))) return false;
    key.remove_prefix(slash + 1);
  }
  const auto is_alnum = [](char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)); };
  return !key.empty() && key.size() <= 63 && is_alnum(key.front()) && is_alnum(key.back()) &&
         std::all_of(key.begin(), key.end(),
                     [&](char c) { return is_alnum(c) || c == '-' || c == '_' || c == '.'; });
}

void Default(Json* object, const char* name, Json value) {
  if (!object->contains(name)) (*object)[name] = std::move(value);
}

void SetTypeDefaults(const FakeType& type, Json* object) {
  const std::string& kind = type.resource.kind;
  if (kind == "Secret") {
    Default(object, "type", "Opaque");
  } else if (kind == "Namespace") {
    (*object)["metadata"]["labels"]["kubernetes.io/metadata.name"] =
        Text(Find(*object, {"metadata", "name"}));
    Default(&(*object)["spec"], "finalizers", Json::array({"kubernetes"}));
  } else if (kind == "Pod") {
    Json& spec = (*object)["spec"];
    Default(&spec, "restartPolicy", "Always");
    Default(&spec, "dnsPolicy", "ClusterFirst");
    Default(&spec, "schedulerName", "default-scheduler");
    Default(&spec, "terminationGracePeriodSeconds", 30);
    Default(&spec, "serviceAccountName", "default");
    Default(&spec, "securityContext", Json::object());
    Default(&spec, "enableServiceLinks", true);
    Default(&spec, "priority", 0);
    Default(&spec, "preemptionPolicy", "PreemptLowerPriority");
  } else if (kind == "Deployment") {
    Json& spec = (*object)["spec"];
    Default(&spec, "replicas", 1);
    Default(&spec, "revisionHistoryLimit", 10);
    Default(&spec, "progressDeadlineSeconds", 600);
  }
}

// Of a Pod's spec only this may change.
void BlankMutablePodFields(Json* spec) {
  for (const char* const list : {"containers", "initContainers"}) {
    if (!spec->contains(list)) continue;
    for (Json& container : (*spec)[list]) container.erase("image");
  }
  for (const char* const name : {"tolerations", "activeDeadlineSeconds", "schedulingGates",
                                 "terminationGracePeriodSeconds", "nodeSelector", "affinity"}) {
    spec->erase(name);
  }
}

void CheckPodChange(const Json& before, const Json& after, std::vector<Cause>* causes) {
  Json old_spec = Member(before, "spec");
  Json new_spec = Member(after, "spec");
  BlankMutablePodFields(&old_spec);
  BlankMutablePodFields(&new_spec);
  if (old_spec != new_spec) {
    causes->push_back(ForbiddenField(
        "spec",
        "pod updates may not change fields other than `spec.containers[*].image`,"
        "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only "
        "additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be "
        "set to 1 if it was previously negative)"));
  }
}

}  // namespace

std::string ToMetaTime(absl::Time time) {
  return absl::FormatTime("%Y-%m-%d%ET%H:%M:%SZ", time, absl::UTCTimeZone());
}

std::vector<std::string> Finalizers(const Json& object) {
  std::vector<std::string> out;
  const Json& list = Find(object, {"metadata", "finalizers"});
  if (list.is_array()) {
    for (const Json& one : list) out.push_back(Text(one));
  }
  return out;
}

void SetFinalizers(Json* object, const std::vector<std::string>& finalizers) {
  if (finalizers.empty()) {
    (*object)["metadata"].erase("finalizers");
  } else {
    (*object)["metadata"]["finalizers"] = finalizers;
  }
}

absl::optional<ApiError> CheckShape(const FakeType& type, const Json& object) {
  const auto bad = [&](absl::string_view field) {
    return BadRequest(absl::StrCat(type.resource.kind, " in version \"", type.resource.version,
                                   "\" cannot be handled as a ", type.resource.kind,
                                   ": json: cannot unmarshal into Go struct field ", field));
  };
  if (!object.is_object()) return bad(type.resource.kind);
  const Json& metadata = Member(object, "metadata");
  if (!metadata.is_null() && !metadata.is_object()) return bad("metadata");
  for (const char* const name :
       {"name", "namespace", "generateName", "uid", "resourceVersion", "creationTimestamp"}) {
    const Json& value = Member(metadata, name);
    if (!value.is_null() && !value.is_string()) return bad(absl::StrCat("metadata.", name));
  }
  for (const char* const name : {"labels", "annotations"}) {
    const Json& map = Member(metadata, name);
    if (map.is_null()) continue;
    if (!map.is_object()) return bad(absl::StrCat("metadata.", name));
    for (const Json& value : map) {
      if (!value.is_string() && !value.is_null()) return bad(absl::StrCat("metadata.", name));
    }
  }
  for (const char* const name : {"finalizers", "ownerReferences"}) {
    const Json& list = Member(metadata, name);
    if (!list.is_null() && !list.is_array()) return bad(absl::StrCat("metadata.", name));
  }
  if (!type.builtin) return absl::nullopt;
  for (const char* const name : {"spec", "status", "data", "stringData", "binaryData"}) {
    const Json& value = Member(object, name);
    if (!value.is_null() && !value.is_object()) return bad(name);
  }
  for (const Json& value : Member(object, "data")) {
    if (!value.is_string() && !value.is_null()) return bad("data");
  }
  for (const char* const list : {"containers", "initContainers", "tolerations", "volumes"}) {
    const Json& value = Find(object, {"spec", list});
    if (!value.is_null() && !value.is_array()) return bad(absl::StrCat("spec.", list));
  }
  return absl::nullopt;
}

void Normalise(const FakeType& type, Json* object) {
  (*object)["apiVersion"] = ApiVersion(type.resource);
  (*object)["kind"] = type.resource.kind;
  if (type.builtin) {
    DropNulls(object);
  } else if (object->contains("metadata")) {
    DropNulls(&(*object)["metadata"]);
  }
  Json& metadata = (*object)["metadata"];
  if (metadata.is_null()) metadata = Json::object();
  for (const char* const name : {"labels", "annotations", "finalizers", "ownerReferences"}) {
    if (metadata.contains(name) && metadata[name].empty()) metadata.erase(name);
  }
  for (const char* const name : {"name", "namespace", "generateName", "selfLink"}) {
    if (metadata.contains(name) && Text(metadata[name]).empty()) metadata.erase(name);
  }
  metadata.erase("selfLink");
  if (metadata.contains("finalizers")) {
    std::vector<std::string> unique;
    for (const std::string& one : Finalizers(*object)) {
      if (std::find(unique.begin(), unique.end(), one) == unique.end()) unique.push_back(one);
    }
    SetFinalizers(object, unique);
  }
  if (!type.builtin) return;
  if (type.resource.kind == "Secret" && object->contains("stringData")) {
    for (const auto& [name, value] : (*object)["stringData"].items()) {
      (*object)["data"][name] = absl::Base64Escape(Text(value));
    }
    object->erase("stringData");
  }
  for (const char* const name : {"data", "binaryData"}) {
    if (object->contains(name) && (*object)[name].empty()) object->erase(name);
  }
  SetTypeDefaults(type, object);
}

void InitialStatus(const FakeType& type, Json* object) {
  if (type.drops_status_on_create) object->erase("status");
  const std::string& kind = type.resource.kind;
  if (kind == "Namespace") (*object)["status"] = {{"phase", "Active"}};
  if (kind == "Pod") (*object)["status"] = {{"phase", "Pending"}, {"qosClass", "BestEffort"}};
  if (kind == "PersistentVolumeClaim" || kind == "PersistentVolume") {
    (*object)["status"] = {{"phase", "Pending"}};
  }
  if (type.builtin && type.status && !object->contains("status")) {
    (*object)["status"] = Json::object();
  }
}

absl::optional<ApiError> ValidateNew(const FakeType& type, const Json& object) {
  std::vector<Cause> causes;
  const Json& metadata = Member(object, "metadata");
  const std::string name = Text(Member(metadata, "name"));
  const bool is_label = type.resource.kind == "Namespace";
  if (name.empty()) {
    causes.push_back(Required("metadata.name", "name or generateName is required"));
  } else if (is_label ? !IsDnsLabel(name) : !IsDnsSubdomain(name)) {
    causes.push_back(InvalidValue(
        "metadata.name", WriteJson(name),
        is_label
            ? "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or "
              "'-', and must start and end with an alphanumeric character (e.g. 'my-name',  or "
              "'123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
            : "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, "
              "'-' or '.', and must start and end with an alphanumeric character (e.g. "
              "'example.com', regex used for validation is "
              "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"));
  }
  int controllers = 0;
  const Json& owners = Member(metadata, "ownerReferences");
  for (size_t i = 0; owners.is_array() && i < owners.size(); ++i) {
    for (const char* const field : {"apiVersion", "kind", "name", "uid"}) {
      if (Text(Member(owners[i], field)).empty()) {
        causes.push_back(
            InvalidValue(absl::StrCat("metadata.ownerReferences[", i, "].", field), "\"\"",
                         absl::StrCat(absl::string_view(field) == "apiVersion" ? "version" : field,
                                      " must not be empty")));
      }
    }
    if (Member(owners[i], "controller") == Json(true)) ++controllers;
  }
  if (controllers > 1) {
    causes.push_back(InvalidValue("metadata.ownerReferences", WriteJson(owners),
                                  "Only one reference can have Controller set to true."));
  }
  for (const std::string& finalizer : Finalizers(object)) {
    if (finalizer.find('/') == std::string::npos && finalizer != "orphan" &&
        finalizer != "foregroundDeletion" && finalizer != "kubernetes" && type.builtin) {
      causes.push_back(InvalidValue("metadata.finalizers", WriteJson(finalizer),
                                    "name is neither a standard finalizer name nor is it fully "
                                    "qualified"));
    }
  }
  const Json& labels = Member(metadata, "labels");
  for (const auto& [key, value] : labels.items()) {
    if (!IsQualifiedName(key)) {
      causes.push_back(InvalidValue(
          "metadata.labels", WriteJson(key),
          "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and "
          "end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex "
          "used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"));
    }
    if (Text(value).size() > 63) {
      causes.push_back(
          InvalidValue("metadata.labels", WriteJson(value), "must be no more than 63 bytes"));
    }
  }
  for (Cause& cause : TypeCauses(type, object)) causes.push_back(std::move(cause));
  if (causes.empty()) return absl::nullopt;
  return Invalid(type.resource, name, causes);
}

absl::optional<ApiError> ValidateChange(const FakeType& type, const Json& before,
                                        const Json& after) {
  if (auto error = ValidateNew(type, after); error.has_value()) return error;
  std::vector<Cause> causes;
  const Json& old_metadata = Member(before, "metadata");
  const Json& metadata = Member(after, "metadata");
  for (const char* const name : {"name", "namespace", "uid"}) {
    if (Member(old_metadata, name) != Member(metadata, name)) {
      causes.push_back(InvalidValue(absl::StrCat("metadata.", name),
                                    WriteJson(Member(metadata, name)), kImmutable));
    }
  }
  if (old_metadata.contains("deletionTimestamp")) {
    const std::vector<std::string> known = Finalizers(before);
    std::vector<std::string> added;
    for (const std::string& one : Finalizers(after)) {
      if (std::find(known.begin(), known.end(), one) == known.end()) added.push_back(one);
    }
    if (!added.empty()) {
      causes.push_back(ForbiddenField(
          "metadata.finalizers",
          absl::StrCat("no new finalizers can be added if the object is being deleted, found new "
                       "finalizers []string{\"",
                       absl::StrJoin(added, "\", \""), "\"}")));
    }
  }
  const std::string& kind = type.resource.kind;
  if ((kind == "ConfigMap" || kind == "Secret") && Member(before, "immutable") == Json(true)) {
    for (const char* const name : {"data", "binaryData"}) {
      if (Member(before, name) != Member(after, name)) {
        causes.push_back(ForbiddenField(name, "field is immutable when `immutable` is set"));
      }
    }
    if (Member(after, "immutable") != Json(true)) {
      causes.push_back(ForbiddenField("immutable", "field is immutable when `immutable` is set"));
    }
  }
  if (kind == "Secret" && Member(before, "type") != Member(after, "type")) {
    causes.push_back(InvalidValue("type", WriteJson(Member(after, "type")), kImmutable));
  }
  if (kind == "Pod") CheckPodChange(before, after, &causes);
  if (type.resource.group == "apps" &&
      Find(before, {"spec", "selector"}) != Find(after, {"spec", "selector"})) {
    causes.push_back(
        InvalidValue("spec.selector", WriteJson(Find(after, {"spec", "selector"})), kImmutable));
  }
  if (causes.empty()) return absl::nullopt;
  return Invalid(type.resource, Text(Member(metadata, "name")), causes);
}

Json Admissible(const FakeType& type, const Json& before, Json submitted,
                absl::string_view subresource) {
  Json& metadata = submitted["metadata"];
  const Json& old_metadata = Member(before, "metadata");
  if (subresource == "status") {
    Json status = Member(submitted, "status");
    if (!type.builtin) {
      Json only = before;
      only["metadata"]["managedFields"] = Member(metadata, "managedFields");
      if (status.is_null()) {
        only.erase("status");
      } else {
        only["status"] = std::move(status);
      }
      if (only["metadata"]["managedFields"].is_null()) only["metadata"].erase("managedFields");
      return only;
    }
    if (before.contains("spec")) {
      submitted["spec"] = before["spec"];
    } else {
      submitted.erase("spec");
    }
    if (type.resource.group == "apps") {
      if (old_metadata.contains("labels")) {
        metadata["labels"] = old_metadata["labels"];
      } else {
        metadata.erase("labels");
      }
    }
    if (old_metadata.contains("ownerReferences")) {
      metadata["ownerReferences"] = old_metadata["ownerReferences"];
    } else {
      metadata.erase("ownerReferences");
    }
  } else if (type.status) {
    if (before.contains("status")) {
      submitted["status"] = before["status"];
    } else {
      submitted.erase("status");
    }
  }
  for (const char* const name : {"creationTimestamp", "deletionTimestamp", "generation",
                                 "deletionGracePeriodSeconds", "resourceVersion"}) {
    if (old_metadata.contains(name)) {
      metadata[name] = old_metadata[name];
    } else {
      metadata.erase(name);
    }
  }
  for (const char* const name : {"uid", "name", "namespace"}) {
    if (!metadata.contains(name) && old_metadata.contains(name))
      metadata[name] = old_metadata[name];
  }
  return submitted;
}

void RaiseGeneration(const FakeType& type, const Json& before, Json* after) {
  if (!type.generation) return;
  Json old_part = before;
  Json new_part = *after;
  for (Json* const part : {&old_part, &new_part}) {
    if (type.builtin) {
      *part = Member(*part, "spec");
      continue;
    }
    part->erase("metadata");
    if (type.status) part->erase("status");
  }
  if (old_part == new_part) return;
  const Json& generation = Find(before, {"metadata", "generation"});
  (*after)["metadata"]["generation"] =
      generation.is_number_integer() ? generation.get<int64_t>() + 1 : 1;
}

}  // namespace capstan::kube::testing
