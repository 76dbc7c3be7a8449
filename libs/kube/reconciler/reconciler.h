// Brings objects to what is wanted, one key at a time.
#ifndef CAPSTAN_LIBS_KUBE_RECONCILER_RECONCILER_H_
#define CAPSTAN_LIBS_KUBE_RECONCILER_RECONCILER_H_

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "libs/kube/informer/cache.h"
#include "libs/kube/informer/informer.h"
#include "libs/kube/informer/object_key.h"
#include "libs/kube/reconciler/ownership.h"
#include "libs/kube/reconciler/reconciler_metrics.h"
#include "libs/kube/work_queue/work_queue.h"
#include "libs/kube/work_queue/work_queue_core.h"
#include "libs/kube/work_queue/work_queue_metrics.h"
#include "libs/log/log.h"
#include "libs/metrics/registry.h"
#include "libs/strand/strand.h"

namespace capstan::kube {

struct ReconcileResult {
  // Again after this, though nothing changes.
  absl::optional<absl::Duration> requeue_after;
};

// Makes what the key names as it should be, from what the informers show now: whatever led to the
// call, and however often it is made. Called from the reconciler's threads, never twice at once for
// one key; may block. An error is tried again after a back-off.
using ReconcileFunction = std::function<absl::StatusOr<ReconcileResult>(const ObjectKey& key)>;

struct ReconcilerOptions {
  // In logs and metrics.
  std::string name;
  // Keys that are worked on at once, each on a thread.
  int workers = 1;
  // All keys are worked on again after this, over and over, behind what changes. Above zero;
  // infinite: never.
  absl::Duration resync = absl::InfiniteDuration();
  // Back-off, and min_interval of a key.
  WorkQueueOptions queue = {};
};

// All must outlive the reconciler.
struct ReconcilerDependencies {
  // Where changes are mapped to keys; its clock is the reconciler's.
  Strand* strand = nullptr;
  absl::optional<log::Logger> log;
  // Null: none.
  metrics::Registry* metrics = nullptr;
};

// Runs a ReconcileFunction on the keys of objects that change.
//
//   - The first call comes after all sources have told what there was at first, so that no decision
//     rests on half a world. What was there at first has a lower priority than what changes.
//   - A key is worked on by one worker; what changes meanwhile has it worked on again.
//   - An error is logged when it is not the one that the key had before (by code and reason), and
//     tried again after the back-off; success ends it.
//   - Exceptions are not caught.
//
// Watch…, then Start, then Stop, from one thread; Add, Wake and the rest from any.
class Reconciler {
 public:
  // Keys to work on because of an object, of any number.
  template <typename T>
  using KeysFunction = std::function<std::vector<ObjectKey>(const T&)>;
  // False: the change is of no interest. Where `resync` has an object worked on again, it is one
  // from the object to itself.
  template <typename T>
  using Predicate = std::function<bool(const CacheChange<T>&)>;

  Reconciler(ReconcilerOptions options, ReconcileFunction reconcile,
             ReconcilerDependencies dependencies);
  // Stops, without draining.
  ~Reconciler();
  Reconciler(const Reconciler&) = delete;
  Reconciler& operator=(const Reconciler&) = delete;

  // Works on the keys that `keys` gives for an object before and after each change. `source` must
  // outlive Stop. The functions run on the strand and must not block.
  template <typename T>
  void Watch(Informer<T>* source, KeysFunction<T> keys, Predicate<T> predicate = nullptr) {
    sources_.push_back([this, source, keys = std::move(keys), predicate = std::move(predicate)] {
      Handler<T> handler;
      handler.on_change = [this, keys, predicate](const CacheChange<T>& change, bool initial) {
        if (predicate && !predicate(change)) return;
        const bool again = change.before != nullptr && change.before == change.after;
        if (change.before != nullptr && !again) AddAll(keys(*change.before), initial);
        AddAll(keys(change.after != nullptr ? *change.after : *change.last_known),
               initial || again);
      };
      handler.on_synced = [this] { OnSourceSynced(); };
      handler.resync = options_.resync;
      return std::shared_ptr<void>(source->AddHandler(dependencies_.strand, std::move(handler)));
    });
  }

  // The objects themselves.
  template <typename T>
  void WatchOwn(Informer<T>* source, Predicate<T> predicate = nullptr) {
    Watch<T>(
        source, [](const T& object) { return std::vector<ObjectKey>{KeyOf(object)}; },
        std::move(predicate));
  }

  // The owners of the objects that have this group ("" for the core) and kind. Owners that have a
  // namespace are in that of the object.
  template <typename T>
  void WatchOwned(Informer<T>* source,
                  std::function<std::vector<OwnerReference>(const T&)> owner_references,
                  std::string group, std::string kind, bool owner_has_namespace = true,
                  Predicate<T> predicate = nullptr) {
    Watch<T>(
        source,
        [owner_references = std::move(owner_references), group = std::move(group),
         kind = std::move(kind), owner_has_namespace](const T& object) {
          std::vector<ObjectKey> keys;
          for (std::string& name : OwnersOfKind(owner_references(object), group, kind)) {
            const absl::string_view ns =
                owner_has_namespace ? ObjectTraits<T>::Namespace(object) : absl::string_view();
            keys.push_back({std::string(ns), std::move(name)});
          }
          return keys;
        },
        std::move(predicate));
  }

  // Once.
  void Start();
  // Sources first: no function of theirs runs any more. Then what is ready is worked on (`drain`,
  // if the first call had come) or dropped, and the workers are joined: nothing runs once it has
  // returned. It waits for the calls that run, so not from one. Idempotent.
  void Stop(bool drain = false);

  // Has a key worked on that no source tells of.
  void Add(const ObjectKey& key) { queue_.Add(key); }
  // The clock was moved by hand; as of WorkQueue.
  void Wake() { queue_.Wake(); }
  WorkQueueStats stats() const { return queue_.stats(); }
  // What is worked on, and for how long.
  std::vector<std::pair<ObjectKey, absl::Duration>> running() const { return queue_.running(); }
  // Keys whose last call failed, with how: for pages of status.
  std::map<ObjectKey, absl::Status> failing() const;

 private:
  void AddAll(const std::vector<ObjectKey>& keys, bool initial);
  void OnSourceSynced();
  bool MayWork() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return stopping_ || unsynced_ == 0; }
  void Work();
  void OnResult(const ObjectKey& key, const absl::StatusOr<ReconcileResult>& result);

  const ReconcilerOptions options_;
  const ReconcileFunction reconcile_;
  const ReconcilerDependencies dependencies_;
  absl::optional<WorkQueueMetrics> queue_metrics_;
  absl::optional<ReconcilerMetrics> metrics_;
  WorkQueue<ObjectKey> queue_;
  std::vector<std::function<std::shared_ptr<void>()>> sources_;
  std::vector<std::shared_ptr<void>> subscriptions_;
  std::vector<std::thread> workers_;

  mutable absl::Mutex mutex_;
  size_t unsynced_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<ObjectKey, absl::Status> failing_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_RECONCILER_RECONCILER_H_
