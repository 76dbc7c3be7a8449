// Subresources that are no part of the object's own life.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "libs/kube/testing/fake_api_state.h"
#include "libs/kube/testing/object_rules.h"
#include "libs/kube/testing/selector.h"

namespace capstan::kube::testing {
namespace {

constexpr int64_t kDefaultTokenSeconds = 3600;
constexpr int64_t kMinTokenSeconds = 600;

// `.spec.replicas` from the root.
const Json& At(const Json& object, absl::string_view path) {
  const Json* at = &object;
  for (const absl::string_view name : absl::StrSplit(path, '.', absl::SkipEmpty())) {
    at = &Member(*at, name);
  }
  return *at;
}

void Place(Json* object, absl::string_view path, Json value) {
  Json* at = object;
  for (const absl::string_view name : absl::StrSplit(path, '.', absl::SkipEmpty())) {
    at = &(*at)[std::string(name)];
  }
  *at = std::move(value);
}

std::string SelectorText(const Json& selector) {
  std::string text;
  for (const auto& [key, value] : Member(selector, "matchLabels").items()) {
    absl::StrAppend(&text, text.empty() ? "" : ",", key, "=", Text(value));
  }
  return text;
}

int64_t Number(const Json& value) { return value.is_number_integer() ? value.get<int64_t>() : 0; }

}  // namespace

Json FakeApiState::ScaleOf(const FakeType& type, const Json& object) const {
  const Json& metadata = Member(object, "metadata");
  Json scale = {{"apiVersion", "autoscaling/v1"},
                {"kind", "Scale"},
                {"metadata", Json::object()},
                {"spec", Json::object()},
                {"status", {{"replicas", Number(At(object, type.status_replicas_path))}}}};
  for (const char* const name :
       {"name", "namespace", "uid", "resourceVersion", "creationTimestamp"}) {
    if (metadata.contains(name)) scale["metadata"][name] = metadata[name];
  }
  const int64_t replicas = Number(At(object, type.spec_replicas_path));
  if (replicas != 0) scale["spec"]["replicas"] = replicas;
  const std::string selector = type.builtin ? SelectorText(Find(object, {"spec", "selector"}))
                                            : Text(At(object, type.label_selector_path));
  if (!selector.empty()) scale["status"]["selector"] = selector;
  return scale;
}

ApiOr<Json> FakeApiState::GetScale(const FakeType& type, absl::string_view ns,
                                   absl::string_view name) const {
  CAPSTAN_API_ASSIGN_OR_RETURN(const Json object, Get(type, ns, name));
  if (!type.builtin && At(object, type.spec_replicas_path).is_null()) {
    return Plain(500, absl::StrCat("Internal error occurred: the spec replicas field \"",
                                   type.spec_replicas_path, "\" does not exist"));
  }
  return ScaleOf(type, object);
}

ApiOr<Json> FakeApiState::UpdateScale(const FakeType& type, absl::string_view ns,
                                      absl::string_view name, const Json& scale,
                                      const WriteOptions& options) {
  CAPSTAN_API_ASSIGN_OR_RETURN(Json object, Get(type, ns, name));
  const std::string own = Text(Find(scale, {"metadata", "name"}));
  if (own != name) {
    return BadRequest(absl::StrCat("the name of the object (", own,
                                   ") does not match the name on the URL (", name, ")"));
  }
  const std::string version = Text(Find(scale, {"metadata", "resourceVersion"}));
  if (!version.empty() && version != Text(Find(object, {"metadata", "resourceVersion"}))) {
    return Modified(type.resource, name);
  }
  const int64_t replicas = Number(Find(scale, {"spec", "replicas"}));
  if (replicas < 0 && !type.builtin) {
    return Invalid(type.resource, name,
                   {InvalidValue(type.spec_replicas_path, absl::StrCat(replicas),
                                 "should be a non-negative integer")});
  }
  if (replicas < 0) {
    return Invalid("Scale", "autoscaling", name,
                   {InvalidValue("spec.replicas", absl::StrCat(replicas),
                                 "must be greater than or equal to 0")});
  }
  const Json before = *store_.Get(KeyOf(type, ns, name));
  Place(&object, type.spec_replicas_path, replicas);
  CAPSTAN_API_ASSIGN_OR_RETURN(const Written written,
                               Replace(type, KeyOf(type, ns, name), before, std::move(object), "",
                                       options, /*apply=*/false));
  return ScaleOf(type, written.object);
}

ApiOr<Json> FakeApiState::Bind(absl::string_view ns, absl::string_view name, const Json& binding,
                               const WriteOptions& options) {
  const FakeType& pods = *FindType("", "v1", "pods");
  ResourceType bindings = pods.resource;
  bindings.plural = "pods/binding";
  const std::string own = Text(Find(binding, {"metadata", "name"}));
  if (!own.empty() && own != name) {
    return BadRequest(absl::StrCat("the name of the object (", own,
                                   ") does not match the name on the URL (", name, ")"));
  }
  const std::string node = Text(Find(binding, {"target", "name"}));
  if (node.empty()) {
    return Invalid("Binding", "", name, {Required("target.name", "")});
  }
  const StoreKey key = KeyOf(pods, ns, name);
  const ObjectRef pod = store_.Get(key);
  if (pod == nullptr) return NotFound(pods.resource, name);
  const std::string uid = Text(Find(binding, {"metadata", "uid"}));
  if (!uid.empty() && uid != Text(Find(*pod, {"metadata", "uid"}))) {
    return Conflict(bindings, name,
                    absl::StrCat("Precondition failed: UID in precondition: ", uid,
                                 ", UID in object meta: ", Text(Find(*pod, {"metadata", "uid"}))));
  }
  if (!Find(*pod, {"metadata", "deletionTimestamp"}).is_null()) {
    return Conflict(bindings, name,
                    absl::StrCat("pod ", name, " is being deleted, cannot be assigned to a host"));
  }
  const std::string old_node = Text(Find(*pod, {"spec", "nodeName"}));
  if (!old_node.empty()) {
    return Conflict(bindings, name,
                    absl::StrCat("pod ", name, " is already assigned to node \"", old_node, "\""));
  }
  const Json& gates = Find(*pod, {"spec", "schedulingGates"});
  if (gates.is_array() && !gates.empty()) {
    return Conflict(bindings, name,
                    absl::StrCat("pod ", name, " has non-empty .spec.schedulingGates"));
  }
  Json bound = *pod;
  bound["spec"]["nodeName"] = node;
  for (const auto& [key_text, value] : Find(binding, {"metadata", "annotations"}).items()) {
    bound["metadata"]["annotations"][key_text] = value;
  }
  Json& conditions = bound["status"]["conditions"];
  if (!conditions.is_array()) conditions = Json::array();
  Json scheduled = {{"type", "PodScheduled"},
                    {"status", "True"},
                    {"lastProbeTime", nullptr},
                    {"lastTransitionTime", ToMetaTime(clock_->Read().wall)}};
  bool found = false;
  for (Json& condition : conditions) {
    if (Text(Member(condition, "type")) != "PodScheduled") continue;
    condition = scheduled;
    found = true;
  }
  if (!found) conditions.push_back(std::move(scheduled));
  if (hooks_.admit) {
    if (auto error = hooks_.admit(pods, *pod, bound); error.has_value()) return *error;
  }
  if (!options.dry_run) Put(pods, key, std::move(bound));
  Json status = SuccessStatus();
  status["code"] = 201;
  return status;
}

ApiOr<Json> FakeApiState::Evict(absl::string_view ns, absl::string_view name, const Json& eviction,
                                const WriteOptions& options) {
  const FakeType& pods = *FindType("", "v1", "pods");
  const FakeType& budgets = *FindType("policy", "v1", "poddisruptionbudgets");
  const std::string own = Text(Find(eviction, {"metadata", "name"}));
  if (!own.empty() && own != name) {
    return BadRequest("name in URL does not match name in Eviction object");
  }
  const ObjectRef pod = store_.Get(KeyOf(pods, ns, name));
  if (pod == nullptr) return NotFound(pods.resource, name);
  constexpr char kRefused[] = "Cannot evict pod as it would violate the pod's disruption budget.";
  const std::string phase = Text(Find(*pod, {"status", "phase"}));
  const bool ignores_budget = phase == "Succeeded" || phase == "Failed" || phase == "Pending" ||
                              !Find(*pod, {"metadata", "deletionTimestamp"}).is_null();
  if (hooks_.disrupt) {
    if (auto error = hooks_.disrupt(*pod); error.has_value()) return *error;
  }
  StoreKey spent;
  for (const auto& [key, budget] : store_.List(budgets.StoreName(), ns)) {
    if (ignores_budget) break;
    if (!LabelSelector::FromObject(Find(*budget, {"spec", "selector"})).Matches(*pod)) continue;
    if (!spent.name.empty()) {
      return Plain(500,
                   "This pod has more than one PodDisruptionBudget, which the eviction subresource "
                   "does not support.");
    }
    if (Number(Find(*budget, {"status", "observedGeneration"})) <
        Number(Find(*budget, {"metadata", "generation"}))) {
      return TooManyRequests(kRefused, absl::Seconds(10),
                             {{"DisruptionBudget",
                               absl::StrCat("The disruption budget ", key.name,
                                            " is still being processed by the server."),
                               ""}});
    }
    if (Number(Find(*budget, {"status", "disruptionsAllowed"})) <= 0) {
      return TooManyRequests(
          kRefused, absl::ZeroDuration(),
          {{"DisruptionBudget",
            absl::StrCat("The disruption budget ", key.name, " needs ",
                         Number(Find(*budget, {"status", "desiredHealthy"})),
                         " healthy pods and has ",
                         Number(Find(*budget, {"status", "currentHealthy"})), " currently"),
            ""}});
    }
    spent = key;
  }
  DeleteOptions deletion;
  const Json& asked = Member(eviction, "deleteOptions");
  const Json& preconditions = Member(asked, "preconditions");
  if (Member(preconditions, "uid").is_string()) {
    deletion.uid = Text(Member(preconditions, "uid"));
  }
  if (Member(preconditions, "resourceVersion").is_string()) {
    deletion.resource_version = Text(Member(preconditions, "resourceVersion"));
  }
  if (Member(asked, "gracePeriodSeconds").is_number_integer()) {
    deletion.grace_period_seconds = Member(asked, "gracePeriodSeconds").get<int64_t>();
  }
  deletion.dry_run = options.dry_run;
  CAPSTAN_API_ASSIGN_OR_RETURN(const Deleted deleted, Delete(pods, ns, name, deletion));
  (void)deleted;
  if (!spent.name.empty() && !options.dry_run) {
    Json budget = *store_.Get(spent);
    Json& status = budget["status"];
    status["disruptionsAllowed"] = Number(status["disruptionsAllowed"]) - 1;
    status["disruptedPods"][std::string(name)] = ToMetaTime(clock_->Read().wall);
    Put(budgets, spent, std::move(budget));
  }
  Json status = SuccessStatus();
  status["code"] = 201;
  return status;
}

ApiOr<Json> FakeApiState::CreateToken(absl::string_view ns, absl::string_view name, Json request) {
  const FakeType& accounts = *FindType("", "v1", "serviceaccounts");
  CAPSTAN_API_ASSIGN_OR_RETURN(const Json account, Get(accounts, ns, name));
  const Json& asked = Find(request, {"spec", "expirationSeconds"});
  const int64_t seconds = asked.is_number_integer() ? asked.get<int64_t>() : kDefaultTokenSeconds;
  if (seconds < kMinTokenSeconds) {
    return Invalid("TokenRequest", "authentication.k8s.io", "",
                   {InvalidValue("spec.expirationSeconds", absl::StrCat(seconds),
                                 "may not specify a duration less than 10 minutes")});
  }
  const absl::Time now = clock_->Read().wall;
  request["apiVersion"] = "authentication.k8s.io/v1";
  request["kind"] = "TokenRequest";
  request["metadata"] = {{"name", std::string(name)},
                         {"namespace", std::string(ns)},
                         {"creationTimestamp", ToMetaTime(now)}};
  request["spec"]["expirationSeconds"] = seconds;
  if (!request["spec"].contains("audiences")) {
    request["spec"]["audiences"] = {"https://kubernetes.default.svc"};
  }
  request["status"] = {{"token", absl::StrCat("fake.", ns, ".", name, ".", random_->Uuid4())},
                       {"expirationTimestamp", ToMetaTime(now + absl::Seconds(seconds))}};
  return request;
}

}  // namespace capstan::kube::testing
