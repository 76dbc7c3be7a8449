#include "libs/kube/testing/type_rules.h"

#include <algorithm>
#include <cstdint>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "libs/kube/testing/selector.h"

namespace capstan::kube::testing {
namespace {

bool IsConfigKey(absl::string_view key) {
  return !key.empty() && key.size() <= 253 && key != "." && key != ".." &&
         std::all_of(key.begin(), key.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' ||
                  c == '.';
         });
}

void CheckKeys(const Json& object, const char* name, std::vector<Cause>* causes) {
  for (const auto& [key, value] : Member(object, name).items()) {
    if (IsConfigKey(key)) continue;
    causes->push_back(InvalidValue(
        absl::StrCat(name, "[", key, "]"), WriteJson(key),
        "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. "
        "'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is "
        "'[-._a-zA-Z0-9]+')"));
  }
}

void CheckLeast(const Json& object, const char* field, int64_t least, const char* why,
                std::vector<Cause>* causes) {
  const Json& value = Find(object, {"spec", field});
  if (value.is_number_integer() && value.get<int64_t>() < least) {
    causes->push_back(InvalidValue(absl::StrCat("spec.", field), WriteJson(value), why));
  }
}

void CheckContainers(const Json& object, std::vector<Cause>* causes) {
  const Json& containers = Find(object, {"spec", "containers"});
  if (!containers.is_array() || containers.empty()) {
    causes->push_back(Required("spec.containers", ""));
  }
  for (size_t i = 0; containers.is_array() && i < containers.size(); ++i) {
    const std::string at = absl::StrCat("spec.containers[", i, "].");
    for (const char* const name : {"name", "image"}) {
      if (Text(Member(containers[i], name)).empty()) causes->push_back(Required(at + name, ""));
    }
  }
}

}  // namespace

std::vector<Cause> TypeCauses(const FakeType& type, const Json& object) {
  constexpr char kNotNegative[] = "must be greater than or equal to 0";
  std::vector<Cause> causes;
  if (!type.builtin) return causes;
  const std::string& kind = type.resource.kind;
  if (kind == "ConfigMap" || kind == "Secret") {
    for (const char* const name : {"data", "binaryData"}) CheckKeys(object, name, &causes);
  } else if (kind == "Lease") {
    CheckLeast(object, "leaseDurationSeconds", 1, "must be greater than 0", &causes);
    CheckLeast(object, "leaseTransitions", 0, kNotNegative, &causes);
  } else if (kind == "PodDisruptionBudget") {
    if (!Find(object, {"spec", "minAvailable"}).is_null() &&
        !Find(object, {"spec", "maxUnavailable"}).is_null()) {
      causes.push_back(InvalidValue("spec", WriteJson(Member(object, "spec")),
                                    "minAvailable and maxUnavailable cannot be both set"));
    }
  } else if (type.resource.group == "apps") {
    CheckLeast(object, "replicas", 0, kNotNegative, &causes);
    const Json& selector = Find(object, {"spec", "selector"});
    const Json& template_part = Find(object, {"spec", "template"});
    if (!selector.is_null() && !LabelSelector::FromObject(selector).Matches(template_part)) {
      causes.push_back(InvalidValue("spec.template.metadata.labels",
                                    WriteJson(Find(template_part, {"metadata", "labels"})),
                                    "`selector` does not match template `labels`"));
    }
  } else if (kind == "Pod") {
    CheckContainers(object, &causes);
  }
  return causes;
}

std::vector<std::string> UnknownMembers(const FakeType& type, const Json& object) {
  std::vector<std::string> unknown;
  const std::string& kind = type.resource.kind;
  if (!type.builtin || (kind != "ConfigMap" && kind != "Secret")) return unknown;
  std::set<std::string> known = {"apiVersion", "kind", "metadata", "data", "immutable"};
  if (kind == "ConfigMap") {
    known.insert("binaryData");
  } else {
    known.insert({"stringData", "type"});
  }
  for (const auto& [name, value] : object.items()) {
    if (!known.contains(name)) unknown.push_back(name);
  }
  return unknown;
}

}  // namespace capstan::kube::testing
