#include "libs/store/leadership.h"

#include <algorithm>
#include <utility>

#include "libs/status/error.h"
#include "libs/store/commit_queue.h"

namespace capstan::store {
namespace {

// Keep-alives in a TTL: three may be lost before the lease is.
constexpr int kKeepAlivesPerTtl = 4;

}  // namespace

template <typename F>
auto Leadership::InAttempt(F f) {
  return [this, alive = std::weak_ptr<char>(alive_), attempt = attempt_,
          f = std::move(f)](auto&&... args) mutable {
    if (!alive.lock() || attempt != attempt_) return;
    f(std::forward<decltype(args)>(args)...);
  };
}

Leadership::Leadership(Store* store, Strand* strand, Options options)
    : store_(store), strand_(strand), options_(std::move(options)) {}

Leadership::~Leadership() {
  for (const Strand::TimerId timer : {retry_timer_, keep_alive_timer_, expiry_timer_}) {
    if (timer != 0) strand_->Cancel(timer);
  }
}

void Leadership::Start(Callbacks callbacks) {
  callbacks_ = std::move(callbacks);
  Try();
}

bool Leadership::Valid() const {
  return state_ == State::kLeading && strand_->clock().Read().boot < valid_until_;
}

bool Leadership::RenewalIsLate() const {
  return state_ == State::kLeading &&
         valid_until_ - strand_->clock().Read().boot < options_.ttl / 4;
}

Compare Leadership::Guard() const {
  Compare compare;
  compare.key = options_.key;
  compare.target = Compare::Target::kCreateRevision;
  compare.op = Compare::Op::kEqual;
  compare.number = epoch_;
  return compare;
}

void Leadership::Try() {
  state_ = State::kTrying;
  ++attempt_;
  Look();
}

void Leadership::TryAgain(absl::Duration delay) {
  ++attempt_;
  watch_.reset();
  if (retry_timer_ != 0) strand_->Cancel(retry_timer_);
  retry_timer_ = strand_->RunAfter(delay, InAttempt([this] {
                                     retry_timer_ = 0;
                                     Try();
                                   }));
}

void Leadership::Look() {
  store_->Range({.key = options_.key}, InAttempt([this](absl::StatusOr<RangeResult> found) {
                  if (!found.ok()) return TryAgain(options_.retry_after);
                  if (!found->kvs.empty()) return FoundHolder(found->kvs[0], found->revision);
                  holder_.reset();
                  // The lease runs from some moment after this one.
                  const BootTime sent = strand_->clock().Read().boot;
                  store_->GrantLease(options_.ttl,
                                     InAttempt([this, sent](absl::StatusOr<LeaseId> lease) {
                                       if (!lease.ok()) return TryAgain(options_.retry_after);
                                       // From here on whatever ends the attempt revokes it,
                                       // without which a claim is refused or undone.
                                       lease_ = *lease;
                                       Claim(sent);
                                     }));
                }));
}

void Leadership::FoundHolder(const KeyValue& kv, int64_t revision) {
  if (options_.sole_owner) {
    TxnRequest removal;
    removal.compares.push_back(Compare{.key = options_.key, .number = kv.mod_revision});
    removal.then.push_back(Delete{options_.key, ""});
    store_->Txn(std::move(removal), InAttempt([this](absl::StatusOr<TxnResult> result) {
                  if (!result.ok()) return TryAgain(options_.retry_after);
                  Try();
                }));
    return;
  }
  holder_ = kv.value;
  // A lost watch is followed by another look, so that nothing depends on one event.
  watch_ = store_->StartWatch({.key = options_.key, .end = "", .start_revision = revision + 1},
                              InAttempt([this](absl::StatusOr<WatchBatch> batch) {
                                if (!batch.ok()) return TryAgain(options_.retry_after);
                                if (batch->events.empty()) return;
                                TryAgain(absl::ZeroDuration());
                              }));
}

void Leadership::Claim(BootTime lease_sent) {
  TxnRequest claim;
  claim.compares.push_back(
      Compare{.key = options_.key, .target = Compare::Target::kCreateRevision, .number = 0});
  claim.then.push_back(Put{options_.key, options_.value, lease_});
  store_->Txn(std::move(claim), InAttempt([this, lease_sent](absl::StatusOr<TxnResult> result) {
                if (result.ok() && result->succeeded) return Won(lease_sent, result->revision);
                // The claim may have been committed all the same: without its lease it goes.
                RevokeLease([](absl::Status) {});
                TryAgain(result.ok() ? absl::ZeroDuration() : options_.retry_after);
              }));
}

void Leadership::Won(BootTime lease_sent, int64_t epoch) {
  epoch_ = epoch;
  started_at_ = strand_->clock().Read().boot;
  valid_until_ = lease_sent + (options_.ttl - options_.margin);
  if (valid_until_ <= started_at_) {
    // The store took so long that the term is over before it could be used.
    RevokeLease([](absl::Status) {});
    valid_until_ = BootTime::InfinitePast();
    return TryAgain(options_.retry_after);
  }
  state_ = State::kLeading;
  holder_ = options_.value;
  ArmExpiry();
  ArmKeepAlive();
  callbacks_.on_gained();
}

void Leadership::ArmKeepAlive() {
  keep_alive_timer_ =
      strand_->RunAfter(options_.ttl / kKeepAlivesPerTtl, InAttempt([this] { KeepAlive(); }));
}

void Leadership::KeepAlive() {
  const BootTime sent = strand_->clock().Read().boot;
  ArmKeepAlive();
  store_->KeepAliveLease(lease_, InAttempt([this, sent](absl::StatusOr<absl::Duration> ttl) {
                           if (!ttl.ok()) {
                             // Anything but a lost lease may pass before the validity does.
                             if (status::Reason(ttl.status()) == kReasonNoLease)
                               StepDown(ttl.status());
                             return;
                           }
                           valid_until_ =
                               std::max(valid_until_,
                                        sent + (std::min(*ttl, options_.ttl) - options_.margin));
                           ArmExpiry();
                         }));
}

void Leadership::ArmExpiry() {
  if (expiry_timer_ != 0) strand_->Cancel(expiry_timer_);
  expiry_timer_ = strand_->RunAt(
      valid_until_, InAttempt([this] {
        expiry_timer_ = 0;
        StepDown(status::Error(absl::StatusCode::kFailedPrecondition, kReasonNotLeader,
                               "the leadership lease could not be renewed in time"));
      }));
}

void Leadership::End(absl::Status why) {
  const bool was_leading = state_ == State::kLeading;
  ++attempt_;
  state_ = State::kTrying;
  valid_until_ = BootTime::InfinitePast();
  holder_.reset();
  watch_.reset();
  for (Strand::TimerId* timer : {&retry_timer_, &keep_alive_timer_, &expiry_timer_}) {
    if (*timer != 0) strand_->Cancel(std::exchange(*timer, 0));
  }
  if (was_leading) callbacks_.on_lost(std::move(why));
}

void Leadership::StepDown(absl::Status why) {
  if (state_ != State::kLeading) return;
  const std::weak_ptr<char> alive = alive_;
  End(std::move(why));
  if (alive.expired() || state_ == State::kResigned) return;
  RevokeLease([](absl::Status) {});
  TryAgain(options_.retry_after);
}

void Leadership::Resign(DoneCallback done) {
  if (state_ == State::kIdle || state_ == State::kResigned) {
    return strand_->Post([done = std::move(done)]() mutable { done(absl::OkStatus()); });
  }
  const std::weak_ptr<char> alive = alive_;
  End(absl::CancelledError("resigned"));
  if (alive.expired()) return;
  state_ = State::kResigned;
  RevokeLease(std::move(done));
}

void Leadership::RevokeLease(DoneCallback done) {
  if (lease_ == 0) {
    return strand_->Post([done = std::move(done)]() mutable { done(absl::OkStatus()); });
  }
  store_->RevokeLease(std::exchange(lease_, 0), std::move(done));
}

}  // namespace capstan::store
