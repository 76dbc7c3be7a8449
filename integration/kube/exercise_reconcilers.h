// Controllers that keep ConfigMaps for Widgets, and know if a write was made twice.
#ifndef CAPSTAN_INTEGRATION_KUBE_EXERCISE_RECONCILERS_H_
#define CAPSTAN_INTEGRATION_KUBE_EXERCISE_RECONCILERS_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "libs/kube/client/blocking_resource.h"
#include "libs/kube/informer/informer.h"
#include "libs/kube/informer/object_key.h"
#include "libs/kube/objects/dynamic_object.h"
#include "libs/kube/objects/resources.h"
#include "libs/kube/reconciler/ownership.h"
#include "libs/kube/reconciler/reconciler.h"

namespace capstan::kube::testing {

inline constexpr int kMostCopies = 6;
// Index of ConfigMaps: the Widget that an item is of.
inline constexpr char kItemOf[] = "item-of";

std::vector<OwnerReference> OwnersOf(const core_v1::ConfigMap& map);
std::vector<std::string> ItemOf(const core_v1::ConfigMap& map);
int CopiesOf(const DynamicObject& widget);
int ItemsOf(const DynamicObject& widget);
std::string CopyName(const std::string& widget, int i);

// Of the Widgets of one namespace; `seed` is a label of what it makes. Thread-safe.
class Copies {
 public:
  Copies(BlockingResource<core_v1::ConfigMap> resource, Informer<DynamicObject>* widgets,
         Informer<core_v1::ConfigMap>* maps, std::string seed);

  // Keeps `spec.copies` ConfigMaps, whose names follow from the Widget's. One that is there
  // already when it is made was made twice: a failure, unless the answer to the first was lost.
  absl::StatusOr<ReconcileResult> Reconcile(const ObjectKey& key);

 private:
  absl::Status Make(const DynamicObject& widget, const std::string& name);
  absl::Status Drop(const core_v1::ConfigMap& map);
  void Count(const std::string& name, const absl::Status& status, bool twice);

  const BlockingResource<core_v1::ConfigMap> resource_;
  Informer<DynamicObject>* const widgets_;
  Informer<core_v1::ConfigMap>* const maps_;
  const std::string seed_;
  absl::Mutex mutex_;
  std::set<std::string> unsure_ ABSL_GUARDED_BY(mutex_);
};

// Makes `spec.items` ConfigMaps whose names the server chooses: to send one again would make two.
// As Copies otherwise.
class Items {
 public:
  Items(BlockingResource<core_v1::ConfigMap> resource, Informer<DynamicObject>* widgets,
        Informer<core_v1::ConfigMap>* maps, std::string seed);

  absl::StatusOr<ReconcileResult> Reconcile(const ObjectKey& key);

  // Of the items that the server has of one Widget. Empty if there are as many as are wanted, each
  // of another call, and more only where the answer to a call was lost.
  std::string Wrong(const std::vector<const core_v1::ConfigMap*>& items, int wanted) const;

 private:
  const BlockingResource<core_v1::ConfigMap> resource_;
  Informer<DynamicObject>* const widgets_;
  Informer<core_v1::ConfigMap>* const maps_;
  const std::string seed_;
  std::atomic<int64_t> next_call_{0};
  mutable absl::Mutex mutex_;
  std::set<std::string> answered_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace capstan::kube::testing

#endif  // CAPSTAN_INTEGRATION_KUBE_EXERCISE_RECONCILERS_H_
