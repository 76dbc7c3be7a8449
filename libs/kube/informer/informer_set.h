#ifndef CAPSTAN_LIBS_KUBE_INFORMER_INFORMER_SET_H_
#define CAPSTAN_LIBS_KUBE_INFORMER_INFORMER_SET_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <typeindex>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "libs/kube/informer/informer.h"
#include "libs/kube/informer/informer_metrics.h"
#include "libs/kube/informer/object_scope.h"
#include "libs/kube/objects/codec.h"
#include "libs/kube/transport/transport.h"
#include "libs/log/log.h"
#include "libs/metrics/registry.h"
#include "libs/random/random.h"
#include "libs/status/error.h"
#include "libs/strand/strand.h"

namespace capstan::kube {

// Reason of FAILED_PRECONDITION: an informer of the scope is there, made with other options.
inline constexpr char kInformerTaken[] = "KUBE_INFORMER_TAKEN";

// All must outlive the set.
struct InformerSetDependencies {
  Transport* transport = nullptr;
  // Shared by its informers.
  Strand* strand = nullptr;
  uint64_t seed = 0;
  absl::optional<log::Logger> log;
  // Null: none.
  metrics::Registry* metrics = nullptr;
};

// One informer for each type and scope, shared by all who ask, started and stopped together.
// Thread-safe.
class InformerSet {
 public:
  explicit InformerSet(InformerSetDependencies dependencies)
      : dependencies_(std::move(dependencies)), random_(dependencies_.seed) {}
  ~InformerSet() { Stop(); }
  InformerSet(const InformerSet&) = delete;
  InformerSet& operator=(const InformerSet&) = delete;

  // The informer of `options.scope`, which lives as long as the set; one that is new is started if
  // the set is. Who comes first says what filters and indexes it has; a later caller passes none
  // (kInformerTaken). `codec` must outlive the set.
  template <typename T>
  absl::StatusOr<Informer<T>*> Get(InformerOptions<T> options, const Codec<T>* codec) {
    absl::MutexLock lock(&mutex_);
    std::unique_ptr<Entry>& entry = entries_[KeyOf(options.scope, typeid(T))];
    if (entry != nullptr) {
      if (options.filters.accepts || options.filters.transform || !options.indexes.empty()) {
        return status::Error(
            absl::StatusCode::kFailedPrecondition, kInformerTaken,
            absl::StrCat(ToString(options.scope),
                         ": its informer is there already; give filters and indexes where it is "
                         "asked for first, or ask for another scope"));
      }
      return static_cast<Informer<T>*>(entry->informer.get());
    }
    entry = std::make_unique<Entry>();
    if (dependencies_.metrics != nullptr) {
      entry->metrics.emplace(dependencies_.metrics, options.scope);
    }
    auto informer = std::make_unique<Informer<T>>(
        std::move(options), codec,
        InformerDependencies{dependencies_.transport, dependencies_.strand, random_.Next(),
                             dependencies_.log,
                             entry->metrics.has_value() ? &*entry->metrics : nullptr});
    Informer<T>* const result = informer.get();
    entry->informer = std::move(informer);
    if (started_) result->Start();
    if (stopped_) result->Stop();
    return result;
  }

  // Once.
  void Start() {
    absl::MutexLock lock(&mutex_);
    started_ = true;
    for (const auto& [key, entry] : entries_) entry->informer->Start();
  }
  // No handler of any informer runs once it has returned. As Informer::Stop.
  void Stop() {
    for (AnyInformer* informer : Close()) informer->Stop();
  }

  // Blocks, in real time, for all that are there now; the first error.
  absl::Status AwaitSynced(absl::Duration timeout) const {
    const BootTime deadline = Now() + timeout;
    for (const AnyInformer* informer : informers()) {
      absl::Status status = informer->AwaitSynced(std::max(deadline - Now(), absl::ZeroDuration()));
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }
  bool synced() const {
    for (const AnyInformer* informer : informers()) {
      if (!informer->synced()) return false;
    }
    return true;
  }

  // Those that are there, by scope; valid as long as the set.
  std::vector<AnyInformer*> informers() const {
    absl::MutexLock lock(&mutex_);
    return All();
  }

 private:
  using Key = std::tuple<std::string, std::string, std::string, std::string, std::string,
                         std::string, std::type_index>;
  struct Entry {
    absl::optional<InformerMetrics> metrics;
    std::unique_ptr<AnyInformer> informer;
  };

  static Key KeyOf(const ObjectScope& scope, std::type_index type) {
    return {scope.type.group,
            scope.type.version,
            scope.type.plural,
            scope.ns,
            scope.label_selector,
            scope.field_selector,
            type};
  }
  BootTime Now() const { return dependencies_.strand->clock().Read().boot; }

  std::vector<AnyInformer*> All() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::vector<AnyInformer*> all;
    for (const auto& [key, entry] : entries_) all.push_back(entry->informer.get());
    return all;
  }
  std::vector<AnyInformer*> Close() {
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
    return All();
  }

  const InformerSetDependencies dependencies_;
  mutable absl::Mutex mutex_;
  Random random_ ABSL_GUARDED_BY(mutex_);
  std::map<Key, std::unique_ptr<Entry>> entries_ ABSL_GUARDED_BY(mutex_);
  bool started_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_INFORMER_INFORMER_SET_H_
