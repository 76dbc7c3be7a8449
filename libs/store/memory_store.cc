#include "libs/store/memory_store.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/optional.h"
#include "libs/store/txn_rules.h"

namespace capstan::store {
namespace {

// Of one piece of history that a watch is fed.
constexpr size_t kWatchBatchBytes = 1 << 20;

// What a watch has seen. Touched only on the strand, but for `cancelled`.
struct Watcher {
  WatchRequest request;
  absl::AnyInvocable<void(absl::StatusOr<WatchBatch>)> on_batch;
  int64_t next = 0;
  bool greeted = false;
  bool scheduled = false;
  std::atomic<bool> cancelled{false};
};

class WatcherHandle final : public Watch {
 public:
  explicit WatcherHandle(std::shared_ptr<Watcher> watcher) : watcher_(std::move(watcher)) {}
  ~WatcherHandle() override { watcher_->cancelled = true; }

 private:
  const std::shared_ptr<Watcher> watcher_;
};

}  // namespace

// Lives as long as a task on the strand refers to it, so that the store may be destroyed at any
// time.
class MemoryStore::Body : public std::enable_shared_from_this<MemoryStore::Body> {
 public:
  // A change in the commit queue. `apply` runs without the lock, on the strand, and returns what is
  // to be told; `refuse` tells an error instead.
  struct Pending {
    absl::AnyInvocable<absl::AnyInvocable<void()>()> apply;
    absl::AnyInvocable<void(absl::Status)> refuse;
    bool is_txn = false;
    bool puts = false;
  };

  Body(Strand* strand, std::shared_ptr<MemoryImage> image)
      : strand_(strand), image_(image ? std::move(image) : std::make_shared<MemoryImage>()) {}

  // Leases start afresh when the store is opened.
  void Start() {
    Post([](Body& body) {
      for (const auto& [lease, ttl] : body.image_->leases) body.Renew(lease, ttl);
    });
  }

  // Runs `task` on the strand unless the store has crashed by then.
  void Post(absl::AnyInvocable<void(Body&)> task) {
    strand_->Post([self = shared_from_this(), task = std::move(task)]() mutable {
      if (!self->crashed_) task(*self);
    });
  }

  void Submit(Pending pending) {
    absl::MutexLock lock(&mutex_);
    queue_.push_back(std::move(pending));
    if (commit_scheduled_) return;
    commit_scheduled_ = true;
    ScheduleCommit(delay_);
  }

  void Commit() {
    std::deque<Pending> batch;
    {
      absl::MutexLock lock(&mutex_);
      commit_scheduled_ = false;
      batch.swap(queue_);
    }
    if (crashed_) return;
    ++commits_;
    std::vector<absl::AnyInvocable<void()>> answers;
    for (Pending& pending : batch) answers.push_back(ApplyOne(pending));
    WakeWatchers();
    for (auto& answer : answers) {
      if (crashed_) return;
      answer();
    }
  }

  absl::AnyInvocable<void()> ApplyOne(Pending& pending) {
    absl::optional<absl::Status> refusal;
    if (closed_) refusal = ClosedError();
    if (!refusal && unreachable_) refusal = absl::UnavailableError("the store cannot be reached");
    if (!refusal && pending.is_txn && fail_next_) refusal = std::exchange(fail_next_, {});
    if (!refusal && pending.puts && full_) refusal = NoSpaceError("the test's disk is full");
    if (!refusal) {
      absl::AnyInvocable<void()> answer = pending.apply();
      if (!pending.is_txn || !fail_after_) return answer;
      refusal = std::exchange(fail_after_, {});
    }
    return [refuse = std::move(pending.refuse), error = *refusal]() mutable { refuse(error); };
  }

  bool LeaseLives(LeaseId lease) const { return expiries_.count(lease) != 0; }

  void Renew(LeaseId lease, absl::Duration ttl) {
    expiries_[lease] = strand_->clock().Read().boot + ttl;
    ArmExpiry();
  }

  // Deletes the lease and its keys.
  void DropLease(LeaseId lease) {
    TxnRequest txn;
    for (const std::string& key : image_->map.KeysOfLease(lease)) {
      txn.then.push_back(Delete{key, ""});
    }
    image_->map.Apply(txn, [](LeaseId) { return true; }).IgnoreError();
    image_->leases.erase(lease);
    expiries_.erase(lease);
    ArmExpiry();
    WakeWatchers();
  }

  void ArmExpiry() {
    if (expiry_timer_ != 0) strand_->Cancel(std::exchange(expiry_timer_, 0));
    if (expiries_.empty()) return;
    BootTime first = BootTime::InfiniteFuture();
    for (const auto& [lease, expiry] : expiries_) first = std::min(first, expiry);
    expiry_timer_ = strand_->RunAt(first, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->Expire();
    });
  }

  void Expire() {
    expiry_timer_ = 0;
    if (crashed_ || closed_) return;
    const BootTime now = strand_->clock().Read().boot;
    std::vector<LeaseId> dead;
    for (const auto& [lease, expiry] : expiries_) {
      if (expiry <= now) dead.push_back(lease);
    }
    for (const LeaseId lease : dead) DropLease(lease);
  }

  void AddWatcher(const std::shared_ptr<Watcher>& watcher) {
    Post([watcher](Body& body) {
      if (watcher->next == 0) watcher->next = body.image_->map.revision() + 1;
      body.watchers_.push_back(watcher);
      body.Wake(watcher);
    });
  }

  void WakeWatchers() {
    watchers_.erase(std::remove_if(watchers_.begin(), watchers_.end(),
                                   [](const auto& watcher) { return watcher->cancelled.load(); }),
                    watchers_.end());
    for (const auto& watcher : watchers_) Wake(watcher);
  }

  void Wake(const std::shared_ptr<Watcher>& watcher) {
    if (watcher->scheduled) return;
    watcher->scheduled = true;
    Post([watcher](Body& body) { body.Feed(watcher); });
  }

  void Feed(const std::shared_ptr<Watcher>& watcher) {
    watcher->scheduled = false;
    if (watcher->cancelled) return;
    if (closed_) return EndWatch(watcher, ClosedError());
    const WatchRequest& request = watcher->request;
    auto batch = image_->map.Events(request.key, request.end, watcher->next, kWatchBatchBytes);
    if (!batch.ok()) return EndWatch(watcher, batch.status());
    watcher->next = std::max(watcher->next, batch->revision + 1);
    if (batch->revision < image_->map.revision()) Wake(watcher);
    if (watcher->greeted && batch->events.empty()) return;
    watcher->greeted = true;
    watcher->on_batch(*std::move(batch));
  }

  void EndWatch(const std::shared_ptr<Watcher>& watcher, absl::Status why) {
    if (watcher->cancelled.exchange(true)) return;
    watcher->on_batch(std::move(why));
  }

  void EndWatches(const absl::Status& why) {
    const std::vector<std::shared_ptr<Watcher>> watchers = std::exchange(watchers_, {});
    for (const auto& watcher : watchers) EndWatch(watcher, why);
  }

  // The store object is gone. What is queued on the strand still runs and answers STORE_CLOSED.
  void Close() {
    if (crashed_) return;
    Post([](Body& body) {
      body.closed_ = true;
      body.EndWatches(ClosedError());
      if (body.expiry_timer_ != 0) body.strand_->Cancel(body.expiry_timer_);
      // A commit that waits for its delay would answer late; it is answered now.
      body.Commit();
    });
  }

  void Crash(size_t pending_that_commit) {
    std::deque<Pending> queue;
    {
      absl::MutexLock lock(&mutex_);
      queue.swap(queue_);
    }
    for (size_t i = 0; i < std::min(pending_that_commit, queue.size()); ++i) ApplyOne(queue[i]);
    crashed_ = true;
    if (expiry_timer_ != 0) strand_->Cancel(expiry_timer_);
    watchers_.clear();
  }

  void SetDelay(absl::Duration delay) {
    absl::MutexLock lock(&mutex_);
    delay_ = delay;
  }

  Strand* const strand_;
  const std::shared_ptr<MemoryImage> image_;
  // On the strand from here on; `crashed_` is also read when the store is destroyed.
  std::atomic<bool> crashed_{false};
  bool closed_ = false;
  bool full_ = false;
  bool unreachable_ = false;
  absl::optional<absl::Status> fail_next_;
  absl::optional<absl::Status> fail_after_;
  int64_t commits_ = 0;

 private:
  void ScheduleCommit(absl::Duration delay) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    auto task = [self = shared_from_this()] { self->Commit(); };
    if (delay > absl::ZeroDuration()) {
      strand_->RunAfter(delay, std::move(task));
    } else {
      strand_->Post(std::move(task));
    }
  }

  std::map<LeaseId, BootTime> expiries_;
  Strand::TimerId expiry_timer_ = 0;
  std::vector<std::shared_ptr<Watcher>> watchers_;

  absl::Mutex mutex_;
  std::deque<Pending> queue_ ABSL_GUARDED_BY(mutex_);
  bool commit_scheduled_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Duration delay_ ABSL_GUARDED_BY(mutex_);
};

namespace {

// A callback that either `apply` or `refuse` of a Pending uses.
template <typename Done>
std::shared_ptr<Done> Share(Done done) {
  return std::make_shared<Done>(std::move(done));
}

}  // namespace

MemoryStore::MemoryStore(Strand* strand, std::shared_ptr<MemoryImage> image)
    : body_(std::make_shared<Body>(strand, std::move(image))) {
  body_->Start();
}

MemoryStore::~MemoryStore() { body_->Close(); }

void MemoryStore::Range(RangeRequest request, Callback<RangeResult> done) {
  body_->Post([request = std::move(request), done = std::move(done)](Body& body) mutable {
    if (body.closed_) return done(ClosedError());
    if (body.unreachable_) return done(absl::UnavailableError("the store cannot be reached"));
    const absl::Status checked = CheckRange(request);
    if (!checked.ok()) return done(checked);
    done(body.image_->map.Range(request));
  });
}

void MemoryStore::Txn(TxnRequest request, Callback<TxnResult> done) {
  auto shared = Share(std::move(done));
  const absl::Status checked = CheckTxn(request, txn_bounds());
  Body::Pending pending;
  pending.is_txn = true;
  pending.puts = std::any_of(request.then.begin(), request.then.end(),
                             [](const Op& op) { return std::holds_alternative<Put>(op); });
  pending.apply = [body = body_.get(), request = std::move(request), checked, shared] {
    const auto lives = [body](LeaseId lease) { return body->LeaseLives(lease); };
    auto result =
        checked.ok() ? body->image_->map.Apply(request, lives) : absl::StatusOr<TxnResult>(checked);
    return [shared, result = std::move(result)]() mutable { (*shared)(std::move(result)); };
  };
  pending.refuse = [shared](absl::Status error) { (*shared)(std::move(error)); };
  body_->Submit(std::move(pending));
}

std::unique_ptr<Watch> MemoryStore::StartWatch(
    WatchRequest request, absl::AnyInvocable<void(absl::StatusOr<WatchBatch>)> on_batch) {
  auto watcher = std::make_shared<Watcher>();
  watcher->next = request.start_revision;
  const absl::Status checked = CheckWatch(request);
  watcher->request = std::move(request);
  watcher->on_batch = std::move(on_batch);
  if (checked.ok()) {
    body_->AddWatcher(watcher);
  } else {
    body_->Post([watcher, checked](Body& body) { body.EndWatch(watcher, checked); });
  }
  return std::make_unique<WatcherHandle>(std::move(watcher));
}

void MemoryStore::GrantLease(absl::Duration ttl, Callback<LeaseId> done) {
  auto shared = Share(std::move(done));
  const absl::Status checked = CheckTtl(ttl);
  Body::Pending pending;
  pending.puts = true;
  pending.apply = [body = body_.get(), ttl, checked, shared] {
    if (!checked.ok()) {
      return absl::AnyInvocable<void()>([shared, checked] { (*shared)(checked); });
    }
    const LeaseId lease = body->image_->next_lease++;
    body->image_->leases[lease] = ttl;
    body->Renew(lease, ttl);
    return absl::AnyInvocable<void()>([shared, lease] { (*shared)(lease); });
  };
  pending.refuse = [shared](absl::Status error) { (*shared)(std::move(error)); };
  body_->Submit(std::move(pending));
}

void MemoryStore::KeepAliveLease(LeaseId lease, Callback<absl::Duration> done) {
  body_->Post([lease, done = std::move(done)](Body& body) mutable {
    if (body.closed_) return done(ClosedError());
    if (body.unreachable_) return done(absl::UnavailableError("the store cannot be reached"));
    if (!body.LeaseLives(lease)) return done(NoLeaseError(lease));
    const absl::Duration ttl = body.image_->leases[lease];
    body.Renew(lease, ttl);
    done(ttl);
  });
}

void MemoryStore::RevokeLease(LeaseId lease, DoneCallback done) {
  auto shared = Share(std::move(done));
  Body::Pending pending;
  pending.apply = [body = body_.get(), lease, shared] {
    absl::Status result;
    if (body->LeaseLives(lease)) {
      body->DropLease(lease);
    } else {
      result = NoLeaseError(lease);
    }
    return [shared, result] { (*shared)(result); };
  };
  pending.refuse = [shared](absl::Status error) { (*shared)(std::move(error)); };
  body_->Submit(std::move(pending));
}

void MemoryStore::Compact(int64_t revision, DoneCallback done) {
  body_->Post([revision, done = std::move(done)](Body& body) mutable {
    done(body.closed_ ? ClosedError() : body.image_->map.Compact(revision));
  });
}

int64_t MemoryStore::incarnation() const { return body_->image_->incarnation; }

void MemoryStore::FailNextTxn(absl::Status error) { body_->fail_next_ = std::move(error); }
void MemoryStore::FailNextTxnAfterCommit(absl::Status error) {
  body_->fail_after_ = std::move(error);
}
void MemoryStore::SetCommitDelay(absl::Duration delay) { body_->SetDelay(delay); }
void MemoryStore::SetFull(bool full) { body_->full_ = full; }
void MemoryStore::SetUnreachable(bool unreachable) { body_->unreachable_ = unreachable; }
void MemoryStore::AbortWatches() { body_->EndWatches(SlowWatchError()); }
void MemoryStore::Crash(size_t pending_that_commit) { body_->Crash(pending_that_commit); }
const std::shared_ptr<MemoryImage>& MemoryStore::image() const { return body_->image_; }
int64_t MemoryStore::commits() const { return body_->commits_; }

}  // namespace capstan::store
