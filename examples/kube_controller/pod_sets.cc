#include "examples/kube_controller/pod_sets.h"

#include <map>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "libs/kube/objects/conditions.h"
#include "libs/kube/objects/json_conversion.h"
#include "libs/kube/reconciler/owned_object.h"
#include "libs/kube/reconciler/reconciler.h"
#include "libs/status/status_macros.h"
#include "nlohmann/json.hpp"

namespace capstan::examples {
namespace {

using kube::DynamicObject;
using kube::core_v1::Pod;

struct PodSets {
  kube::Informer<DynamicObject>* const sets;
  kube::Informer<Pod>* const pods;
  const kube::BlockingResource<DynamicObject> set_calls;
  const kube::BlockingResource<Pod> pod_calls;

  absl::StatusOr<kube::ReconcileResult> Reconcile(const kube::ObjectKey& key) {
    const std::shared_ptr<const DynamicObject> set = sets->Get(key.ns, key.name);
    // The garbage collector takes the Pods.
    if (set == nullptr || set->deleting()) return kube::ReconcileResult{};
    nlohmann::json json = set->ToJson();
    std::map<std::string, std::shared_ptr<const Pod>> present;
    for (auto& pod : pods->ByIndex("owner", set->uid())) present[pod->metadata().name()] = pod;
    int ready = 0;
    for (int i = 0; i < json["spec"]["replicas"].get<int>(); ++i) {
      const std::string name = absl::StrCat(set->name(), "-", i);
      if (const auto pod = present.extract(name); !pod.empty()) {
        ready += kube::IsTrue(pod.mapped()->status().conditions(), "Ready") ? 1 : 0;
      } else {
        CAPSTAN_RETURN_IF_ERROR(Create(*set, name, json["spec"]["template"]));
      }
    }
    for (const auto& [name, pod] : present) {
      if (pod->metadata().has_deletion_timestamp()) continue;
      const absl::Status deleted =
          pod_calls.Delete(key.ns, name, {.uid = pod->metadata().uid()}).status();
      if (!deleted.ok() && !absl::IsNotFound(deleted)) return deleted;
    }
    const nlohmann::json status = {{"ready", ready}, {"observedGeneration", set->generation()}};
    if (json.value("status", nlohmann::json()) == status) return kube::ReconcileResult{};
    json["status"] = status;
    CAPSTAN_ASSIGN_OR_RETURN(const DynamicObject changed, DynamicObject::FromJson(json));
    CAPSTAN_ASSIGN_OR_RETURN(const auto written, set_calls.Update(changed, {}, "status"));
    sets->Expect(written);
    return kube::ReconcileResult{};
  }

  absl::Status Create(const DynamicObject& set, const std::string& name,
                      const nlohmann::json& pod_template) {
    Pod pod;
    CAPSTAN_RETURN_IF_ERROR(kube::JsonToMessage(pod_template.dump(), &pod));
    pod.mutable_metadata()->set_namespace_(set.ns());
    pod.mutable_metadata()->set_name(name);
    CAPSTAN_RETURN_IF_ERROR(kube::SetController(kPodSets.type(), set, &pod));
    CAPSTAN_ASSIGN_OR_RETURN(const auto created, pod_calls.Create(pod));
    pods->Expect(created);  // So that the next call sees it, whatever the watch has shown by then.
    return absl::OkStatus();
  }
};

}  // namespace

absl::Status RunPodSets(kube::Connection* connection, const absl::optional<log::Logger>& log,
                        const absl::Notification& stop) {
  CAPSTAN_ASSIGN_OR_RETURN(auto* const sets, connection->Follow(kPodSets));
  kube::InformerOptions<Pod> options;
  options.indexes["owner"] = kube::ControllerUids<Pod>;
  CAPSTAN_ASSIGN_OR_RETURN(auto* const pods, connection->Follow(kube::kPods, options));
  PodSets pod_sets = {sets, pods, connection->Calls(kPodSets), connection->Calls(kube::kPods)};
  kube::Reconciler reconciler({.name = "podsets", .workers = 2},
                              [&](const kube::ObjectKey& key) { return pod_sets.Reconcile(key); },
                              {connection->informer_strand(), log, nullptr});
  reconciler.WatchOwn(sets);
  reconciler.WatchOwned<Pod>(pods, kube::OwnersOf<Pod>, kPodSets.group, kPodSets.kind);
  reconciler.Start();
  connection->informers()->Start();
  stop.WaitForNotification();
  reconciler.Stop();
  return absl::OkStatus();
}

}  // namespace capstan::examples
