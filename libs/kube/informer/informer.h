#ifndef CAPSTAN_LIBS_KUBE_INFORMER_INFORMER_H_
#define CAPSTAN_LIBS_KUBE_INFORMER_INFORMER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "libs/kube/informer/cache.h"
#include "libs/kube/informer/delivery.h"
#include "libs/kube/informer/informer_metrics.h"
#include "libs/kube/informer/kept_object.h"
#include "libs/kube/informer/list_watch_loop.h"
#include "libs/kube/informer/list_watcher.h"
#include "libs/kube/informer/object_key.h"
#include "libs/kube/informer/object_packer.h"
#include "libs/kube/informer/object_scope.h"
#include "libs/kube/informer/own_writes.h"
#include "libs/kube/objects/codec.h"
#include "libs/kube/transport/transport.h"
#include "libs/log/log.h"
#include "libs/status/error.h"
#include "libs/strand/strand.h"
#include "libs/time/clock.h"

namespace capstan::kube {

// Reason of AwaitSynced's errors.
inline constexpr char kNotSynced[] = "KUBE_NOT_SYNCED";

template <typename T>
struct InformerOptions {
  ObjectScope scope;
  // Filters and indexes run on the strand, and in Expect on the caller's thread; under no lock of
  // the informer's.
  ObjectFilters<T> filters;
  std::map<std::string, IndexFunction<T>> indexes;
  // See PackingOptions.
  bool keep_decoded = false;
  ListWatchOptions list_watch;
  // `selected` and `filtered` follow from the scope and filters.
  OwnWritesOptions own_writes;
};

// All must outlive the informer.
struct InformerDependencies {
  Transport* transport = nullptr;
  // Where answers are decoded and applied. Informers that share one take turns; a large first list
  // holds it for as long as its pages take to decode.
  Strand* strand = nullptr;
  // Of the jitter of back-offs and watches.
  uint64_t seed = 0;
  // Failures, once per change, and recoveries.
  absl::optional<log::Logger> log;
  // Null: none.
  InformerMetrics* metrics = nullptr;
};

struct InformerStats {
  size_t objects = 0;
  // Own writes that shadow the cache.
  size_t own_writes = 0;
  uint64_t events = 0;
  uint64_t lists = 0;
  uint64_t watches = 0;
  uint64_t failures = 0;
  // Of the last event or list; InfinitePast if there was none.
  BootTime last_event = BootTime::InfinitePast();
  // OK unless what was tried last failed.
  absl::Status failure;
};

// What does not depend on the type.
class AnyInformer {
 public:
  virtual ~AnyInformer() = default;

  virtual const ObjectScope& scope() const = 0;
  virtual void Start() = 0;
  virtual void Stop() = 0;
  virtual bool synced() const = 0;
  virtual absl::Status AwaitSynced(absl::Duration timeout) const = 0;
  virtual InformerStats stats() const = 0;
};

// A handler's tie to an informer; see Informer::AddHandler. May outlive the informer.
template <typename T>
class Subscription {
 public:
  explicit Subscription(std::shared_ptr<Delivery<T>> delivery) : delivery_(std::move(delivery)) {}
  // Waits for the handler if it runs; it is not called any more afterwards. Not from the handler.
  ~Subscription() { delivery_->Stop(); }
  Subscription(const Subscription&) = delete;
  Subscription& operator=(const Subscription&) = delete;

  // The handler has been told all that was there at first.
  bool synced() const { return delivery_->synced(); }
  // Objects of which the handler has yet to be told.
  size_t depth() const { return delivery_->depth(); }

 private:
  const std::shared_ptr<Delivery<T>> delivery_;
};

// The objects of a scope, kept as the API server shows them, for any number of readers and
// handlers. Thread-safe.
//
//   - Get, List and ByIndex give immutable objects that may be kept. They take a shared lock, which
//     waits for the application of an event or a whole list, and then decode what nobody has
//     decoded, under no lock of the informer's.
//   - Each handler has a queue and a strand: none waits for another, nor the watch for any. It is
//     told of each object's states in order, none twice unasked and none of the past; states
//     between may be left out if it is slow, deletions of what it was told may not. Memory:
//     ChangeQueue's bound.
//   - Own writes (Expect) are in what is read from the moment of the call; handlers are told of
//     them when the watch shows them. See OwnWrites for what that rests on.
//   - A server that is not reached, or refuses, empties nothing.
//   - Nothing is told again that has not changed, unless a handler asks for it (Handler::resync).
//
// Memory, as cache_memory_test measures it at 100,000 objects: the object's encoding as protobuf, or
// the decoded object where there is none (KeptObject); beside it 22 bytes in the cache (17 to 39, as
// full as its table is), at most 224 of the kept object and malloc, and at most 160 for each index
// value. What is decoded, some five times the encoding, is there as long as somebody has it. During
// a list its objects, staged, are there too, with their keys.
template <typename T>
class Informer final : public AnyInformer, private ObjectSink<T> {
 public:
  using Ref = std::shared_ptr<const T>;

  // `codec` must outlive it.
  Informer(InformerOptions<T> options, const Codec<T>* codec, InformerDependencies dependencies)
      : scope_(options.scope),
        index_names_(IndexNamesOf(options)),
        strand_(dependencies.strand),
        log_(std::move(dependencies.log)),
        metrics_(dependencies.metrics),
        cache_({.indexes = CacheIndexesOf(options)}),
        own_writes_(OwnWritesOf(options)),
        packer_({.filters = std::move(options.filters),
                 .indexes = std::move(options.indexes),
                 .keep_decoded = options.keep_decoded},
                codec),
        watcher_(std::move(options.scope), options.list_watch, &packer_, codec,
                 dependencies.transport, dependencies.strand, dependencies.seed, this) {}
  ~Informer() override { Stop(); }

  const ObjectScope& scope() const override { return scope_; }

  // Once.
  void Start() override { watcher_.Start(); }

  // No handler runs once it has returned; it waits for those that do, so it must not be called from
  // one. What was read last can still be read. Idempotent.
  void Stop() override {
    watcher_.Stop();
    std::vector<std::shared_ptr<Delivery<T>>> deliveries;
    {
      absl::MutexLock lock(&mutex_);
      stopped_ = true;
      deliveries.swap(deliveries_);
    }
    for (const auto& delivery : deliveries) delivery->Stop();
  }

  // From any thread, at any time. The handler is told what is there, then what changes, on
  // `strand`, which must be there until the subscription or the informer has ended; Get and List
  // may be called from it. A handler that blocks needs a strand of its own. The subscription ends
  // with its owner.
  [[nodiscard]] std::unique_ptr<Subscription<T>> AddHandler(Strand* strand, Handler<T> handler) {
    auto delivery = std::make_shared<Delivery<T>>(
        std::move(handler), strand, [this](Delivery<T>& asking) { TellAgain(asking); });
    absl::MutexLock lock(&mutex_);
    if (stopped_) {
      delivery->Stop();
    } else {
      std::vector<CacheChange<Kept>> changes;
      changes.reserve(cache_.size());
      for (KeptRef& object : cache_.List())
        changes.push_back({nullptr, std::move(object), nullptr});
      delivery->Push(changes);
      if (synced_) delivery->MarkSynced();
      deliveries_.push_back(delivery);
    }
    return std::make_unique<Subscription<T>>(std::move(delivery));
  }

  // Null if it is not there.
  Ref Get(absl::string_view ns, absl::string_view name) const {
    const KeptRef kept = GetKept(ns, name);
    return kept == nullptr ? nullptr : kept->Decode();
  }
  // By key. All decoded at once: who does so often wants `keep_decoded`, or an index.
  std::vector<Ref> List() const {
    return Decode(WithOwnWrites([this]()
                                    ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return cache_.List(); },
                                [](const Kept&) { return true; }));
  }
  // Those of which the index gives `value`, by key. None if there is no such index.
  std::vector<Ref> ByIndex(absl::string_view index, absl::string_view value) const {
    const auto found = std::find(index_names_.begin(), index_names_.end(), index);
    if (found == index_names_.end()) return {};
    const auto place = static_cast<size_t>(found - index_names_.begin());
    return Decode(WithOwnWrites(
        [&]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return cache_.ByIndex(index, value); },
        [&](const Kept& object) {
          const auto& values = object.index_values()[place];
          return std::find(values.begin(), values.end(), value) != values.end();
        }));
  }

  // The server has answered a create, update or patch, or a delete that waits for finalisers, with
  // `object`: what is read from now on is at least that. In the order of the writes, if there are
  // several of one object.
  void Expect(Ref object) {
    const auto packed = packer_.Pack(std::move(object));
    const Kept& kept = *packed.object;
    absl::MutexLock lock(&mutex_);
    if (!scope_.ns.empty() && kept.ns() != scope_.ns) return;
    own_writes_.Expect(packed.object, packed.accepted, cache_.Get(kept.ns(), kept.name()), Now());
  }
  // The server has deleted the object of that uid at once.
  void ExpectGone(const ObjectKey& key, absl::string_view uid) {
    absl::MutexLock lock(&mutex_);
    if (!scope_.ns.empty() && key.ns != scope_.ns) return;
    own_writes_.ExpectGone(key, uid, cache_.Get(key.ns, key.name), Now());
  }

  // A whole state was read from the server.
  bool synced() const override {
    absl::ReaderMutexLock lock(&mutex_);
    return synced_;
  }
  // Blocks, in real time. DEADLINE_EXCEEDED with reason KUBE_NOT_SYNCED and the last failure, or
  // CANCELLED if the informer was stopped.
  absl::Status AwaitSynced(absl::Duration timeout) const override {
    absl::ReaderMutexLock lock(&mutex_);
    mutex_.AwaitWithTimeout(absl::Condition(this, &Informer::SyncedOrStopped), timeout);
    if (synced_) return absl::OkStatus();
    if (stopped_) {
      return status::Error(absl::StatusCode::kCancelled, kNotSynced,
                           absl::StrCat(ToString(scope_), ": stopped before the first list"));
    }
    return status::Error(
        absl::StatusCode::kDeadlineExceeded, kNotSynced,
        absl::StrCat(ToString(scope_), ": no list has come within ", absl::FormatDuration(timeout),
                     stats_.failure.ok() ? "; check the API server"
                                         : absl::StrCat("; ", stats_.failure.message())));
  }

  InformerStats stats() const override {
    absl::ReaderMutexLock lock(&mutex_);
    InformerStats stats = stats_;
    stats.objects = cache_.size();
    stats.own_writes = own_writes_.size();
    return stats;
  }

 private:
  using Kept = KeptObject<T>;
  using KeptRef = std::shared_ptr<const Kept>;

  // As IndexValues are ordered.
  static std::vector<std::string> IndexNamesOf(const InformerOptions<T>& options) {
    std::vector<std::string> names;
    for (const auto& [name, function] : options.indexes) names.push_back(name);
    return names;
  }
  static std::map<std::string, typename Cache<Kept>::IndexFunction> CacheIndexesOf(
      const InformerOptions<T>& options) {
    std::map<std::string, typename Cache<Kept>::IndexFunction> indexes;
    for (const auto& [name, function] : options.indexes) {
      indexes[name] = [place = indexes.size()](const Kept& kept) {
        return kept.index_values()[place];
      };
    }
    return indexes;
  }
  static OwnWritesOptions OwnWritesOf(const InformerOptions<T>& options) {
    OwnWritesOptions own = options.own_writes;
    own.selected = !options.scope.label_selector.empty() || !options.scope.field_selector.empty();
    own.filtered = options.filters.accepts != nullptr;
    return own;
  }

  BootTime Now() const { return strand_->clock().Read().boot; }
  bool SyncedOrStopped() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return synced_ || stopped_; }

  KeptRef GetKept(absl::string_view ns, absl::string_view name) const {
    absl::ReaderMutexLock lock(&mutex_);
    KeptRef cached = cache_.Get(ns, name);
    if (own_writes_.size() == 0) return cached;
    return own_writes_.Read({std::string(ns), std::string(name)}, std::move(cached), Now());
  }
  static std::vector<Ref> Decode(const std::vector<KeptRef>& kept) {
    std::vector<Ref> objects;
    objects.reserve(kept.size());
    for (const KeptRef& one : kept) objects.push_back(one->Decode());
    return objects;
  }

  // What `read` gives, by key, with the names that own writes shadow put right; those that
  // `belongs` are in.
  template <typename Read, typename Belongs>
  std::vector<KeptRef> WithOwnWrites(const Read& read, const Belongs& belongs) const {
    absl::ReaderMutexLock lock(&mutex_);
    std::vector<KeptRef> cached = read();
    if (own_writes_.size() == 0) return cached;
    std::vector<KeptRef> merged;
    merged.reserve(cached.size() + own_writes_.size());
    auto next = cached.begin();
    own_writes_.ReadAll(
        [this](const ObjectKey& key) {
          mutex_.AssertReaderHeld();
          return cache_.Get(key.ns, key.name);
        },
        [&](const ObjectKey& key, KeptRef object) {
          while (next != cached.end() && KeyOf(**next) < key) merged.push_back(std::move(*next++));
          if (next != cached.end() && KeyOf(**next) == key) ++next;
          if (object != nullptr && belongs(*object)) merged.push_back(std::move(object));
        },
        Now());
    for (; next != cached.end(); ++next) merged.push_back(std::move(*next));
    return merged;
  }

  void OnListBegun() override {
    absl::MutexLock lock(&mutex_);
    own_writes_.OnListBegun();
  }
  void OnWatchBegun() override {
    if (metrics_ != nullptr) metrics_->CountWatch();
    absl::MutexLock lock(&mutex_);
    own_writes_.Expire(Now());
    ++stats_.watches;
  }

  void OnReplace(std::vector<KeptRef> objects) override {
    // Here, so that what the cache drops is destroyed under no lock.
    std::vector<CacheChange<Kept>> changes;
    absl::Status recovered;
    size_t size = 0;
    {
      absl::MutexLock lock(&mutex_);
      changes = cache_.Replace(std::move(objects));
      Tell(changes);
      own_writes_.OnListCommitted();
      if (!synced_) {
        synced_ = true;
        for (const auto& delivery : deliveries_) delivery->MarkSynced();
      }
      ++stats_.lists;
      stats_.last_event = Now();
      std::swap(recovered, stats_.failure);
      size = cache_.size();
    }
    if (metrics_ != nullptr) {
      metrics_->CountList();
      metrics_->SetObjects(size);
    }
    LogRecovery(recovered);
  }

  void OnPut(KeptRef object) override {
    Apply([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      auto changes = cache_.Put(std::move(object));
      Tell(changes);
      return changes;
    });
  }
  void OnRemove(KeptRef last, bool deleted) override {
    Apply([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      auto changes = cache_.Remove(last);
      Tell(changes);
      own_writes_.OnRemoved(*last, deleted);
      return changes;
    });
  }

  template <typename Change>
  void Apply(const Change& change) {
    std::vector<CacheChange<Kept>> changes;
    absl::Status recovered;
    const capstan::Now now = strand_->clock().Read();
    size_t size = 0;
    {
      absl::MutexLock lock(&mutex_);
      changes = change();
      own_writes_.Expire(now.boot);
      ++stats_.events;
      stats_.last_event = now.boot;
      std::swap(recovered, stats_.failure);
      size = cache_.size();
    }
    if (metrics_ != nullptr) {
      metrics_->CountEvent(now.wall);
      metrics_->SetObjects(size);
    }
    LogRecovery(recovered);
  }

  // Under the lock, so that no change that the delivery has yet to take is older than what is told.
  void TellAgain(Delivery<T>& delivery) const {
    absl::ReaderMutexLock lock(&mutex_);
    delivery.PushAgain(cache_.List());
  }

  void Tell(const std::vector<CacheChange<Kept>>& changes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    for (const CacheChange<Kept>& change : changes) own_writes_.OnChange(change);
    bool stopped = false;
    for (const auto& delivery : deliveries_) stopped |= !delivery->Push(changes);
    if (stopped) {
      deliveries_.erase(std::remove_if(deliveries_.begin(), deliveries_.end(),
                                       [](const auto& delivery) { return delivery->stopped(); }),
                        deliveries_.end());
    }
  }

  bool WantsDecoded() override {
    absl::ReaderMutexLock lock(&mutex_);
    return !deliveries_.empty();
  }

  void OnFailure(const absl::Status& failure) override {
    bool is_new = false;
    {
      absl::MutexLock lock(&mutex_);
      is_new = stats_.failure.code() != failure.code() ||
               status::Reason(stats_.failure) != status::Reason(failure);
      stats_.failure = failure;
      ++stats_.failures;
    }
    if (metrics_ != nullptr) metrics_->CountFailure();
    if (is_new && log_.has_value()) {
      log_->Warning("kubernetes resource not followed",
                    {{"scope", ToString(scope_)}, {"error", failure}});
    }
  }
  void LogRecovery(const absl::Status& from) const {
    if (from.ok() || !log_.has_value()) return;
    log_->Info("kubernetes resource followed again", {{"scope", ToString(scope_)}});
  }

  const ObjectScope scope_;
  const std::vector<std::string> index_names_;
  Strand* const strand_;
  const absl::optional<log::Logger> log_;
  InformerMetrics* const metrics_;

  // Before those of deliveries and strands.
  mutable absl::Mutex mutex_;
  Cache<Kept> cache_ ABSL_GUARDED_BY(mutex_);
  OwnWrites<Kept> own_writes_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<Delivery<T>>> deliveries_ ABSL_GUARDED_BY(mutex_);
  InformerStats stats_ ABSL_GUARDED_BY(mutex_);
  bool synced_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  // Packs what comes on the strand, what is expected on any thread.
  ObjectPacker<T> packer_;
  // Last: stops before what its calls use goes.
  ListWatcher<T> watcher_;
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_INFORMER_INFORMER_H_
