#include "libs/store/etcd_txn_queue.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/crash_point/crash_point.h"
#include "libs/crash_point/points.h"
#include "libs/status/error.h"
#include "libs/store/etcd_errors.h"
#include "libs/store/etcd_messages.h"
#include "libs/store/txn_rules.h"

namespace capstan::store {
namespace {

using KvCalls = etcdserverpb::KV::StubInterface::async_interface;
using LeaseCalls = etcdserverpb::Lease::StubInterface::async_interface;

// How long a fence stays: no request lives as long in a stopped member, having a deadline itself.
constexpr absl::Duration kFenceTtl = absl::Hours(24);

}  // namespace

EtcdTxnQueue::EtcdTxnQueue(std::shared_ptr<EtcdClient> client, LeaseId session, StoreGuard guard)
    : client_(std::move(client)),
      session_(session),
      guard_(std::move(guard)),
      fence_backoff_(client_->random()) {}

std::string EtcdTxnQueue::FenceKey() const {
  return absl::StrCat(client_->options().prefix, "store/fence/", absl::Hex(session_));
}

void EtcdTxnQueue::Submit(TxnRequest request, Callback<TxnResult> done) {
  if (waiting() >= client_->options().max_waiting) return done(OverloadedError(waiting()));
  queue_.push_back({std::move(request), client_->CallDeadline(), std::move(done)});
  if (!busy_) Next();
}

void EtcdTxnQueue::Close() {
  for (Waiting& waiting : std::exchange(queue_, {})) waiting.done(ClosedError());
  // The fence may never be put: the one whose outcome is unknown is told now.
  if (!unknown_.ok()) TellUnknown(/*settled=*/false);
}

void EtcdTxnQueue::Next() {
  busy_ = false;
  while (!queue_.empty()) {
    Waiting next = std::move(queue_.front());
    queue_.pop_front();
    if (client_->Now() >= next.until) {
      // It was never sent.
      next.done(UnreachableError(absl::DeadlineExceededError("others before it took too long")));
      continue;
    }
    current_ = std::move(next);
    busy_ = true;
    if (KeysToLookUp(current_->request).empty()) return Send();
    return LookUp();
  }
}

void EtcdTxnQueue::LookUp() {
  TxnRequest look;
  for (const std::string& key : KeysToLookUp(current_->request)) {
    look.then.push_back(RangeRequest{.key = key, .limit = 1});
  }
  auto encoded = ToEtcd(look, FenceKey(), {});
  if (!encoded.ok()) return Answer(encoded.status());
  client_->Call<etcdserverpb::KV>(
      &KvCalls::Txn, *std::move(encoded), EtcdClient::Repeat::kAlways, current_->until,
      [self = shared_from_this()](absl::StatusOr<etcdserverpb::TxnResponse> found) {
        if (!found.ok()) return self->Answer(found.status());
        const std::vector<std::string> keys = KeysToLookUp(self->current_->request);
        for (size_t i = 0; i < keys.size(); ++i) {
          const auto& range = found->responses(static_cast<int>(i)).response_range();
          self->current_->present[keys[i]] = range.kvs_size() > 0;
        }
        self->Send();
      });
}

void EtcdTxnQueue::Send() {
  auto encoded = ToEtcd(current_->request, FenceKey(), current_->present, guard_);
  if (!encoded.ok()) return Answer(encoded.status());
  const auto repeat = IsReadOnly(current_->request) ? EtcdClient::Repeat::kAlways
                                                    : EtcdClient::Repeat::kIfNotExecuted;
  CrashPoint(crash::kEtcdBeforeSend);
  client_->Call<etcdserverpb::KV>(
      &KvCalls::Txn, *std::move(encoded), repeat, current_->until,
      [self = shared_from_this()](absl::StatusOr<etcdserverpb::TxnResponse> response) {
        CrashPoint(crash::kEtcdAnswered);
        if (response.ok()) {
          if (WasReplaced(*response, self->current_->request, self->guard_)) {
            return self->Replaced();
          }
          auto result = FromEtcd(*response, self->current_->request, self->current_->present);
          // Somebody put or deleted a key that was looked up; nothing was done.
          if (!result.has_value()) return self->LookUp();
          return self->Answer(*std::move(result));
        }
        if (status::Reason(response.status()) != kReasonOutcomeUnknown) {
          return self->Answer(response.status());
        }
        self->unknown_ = response.status();
        if (self->client_->closed()) return self->TellUnknown(/*settled=*/false);
        // Its caller waits for the fence, but not for ever.
        self->tell_timer_ = self->client_->strand()->RunAt(
            self->current_->until + self->client_->options().attempt_timeout, [self] {
              self->tell_timer_ = 0;
              self->TellUnknown(/*settled=*/false);
            });
        self->Fence();
      });
}

void EtcdTxnQueue::Answer(absl::StatusOr<TxnResult> result) {
  Callback<TxnResult> done = std::move(current_->done);
  current_.reset();
  done(std::move(result));
  Next();
}

void EtcdTxnQueue::Replaced() {
  const absl::Status why =
      status::Error(absl::StatusCode::kFailedPrecondition, kReasonReplaced,
                    absl::StrCat("the store was restored since it was opened (", guard_.key,
                                 " was put anew): it must be opened again"),
                    {{"key", guard_.key}});
  const auto& tell = client_->options().on_replaced;
  if (!std::exchange(replaced_, true) && tell != nullptr) tell(why);
  Answer(why);
}

void EtcdTxnQueue::TellUnknown(bool settled) {
  if (current_.has_value() && current_->done != nullptr) {
    std::exchange(current_->done, nullptr)(settled ? SettledError(unknown_) : unknown_);
  }
}

void EtcdTxnQueue::Fence() {
  if (client_->closed()) return;
  // The lease that takes the fence away in the end also names the next session.
  etcdserverpb::LeaseGrantRequest request;
  request.set_ttl(absl::ToInt64Seconds(kFenceTtl));
  client_->Call<etcdserverpb::Lease>(
      &LeaseCalls::LeaseGrant, request, EtcdClient::Repeat::kAlways, client_->CallDeadline(),
      [self = shared_from_this()](absl::StatusOr<etcdserverpb::LeaseGrantResponse> lease) {
        if (!lease.ok()) return self->FenceAgain(lease.status());
        self->PutFence(lease->id());
      });
}

void EtcdTxnQueue::PutFence(LeaseId next_session) {
  client_->Call<etcdserverpb::KV>(
      &KvCalls::Txn, PutOne(FenceKey(), "", next_session), EtcdClient::Repeat::kAlways,
      client_->CallDeadline(),
      [self = shared_from_this(),
       next_session](absl::StatusOr<etcdserverpb::TxnResponse> response) {
        if (!response.ok()) return self->FenceAgain(response.status());
        self->fence_backoff_.Reset();
        self->session_ = next_session;
        if (self->tell_timer_ != 0) {
          self->client_->strand()->Cancel(std::exchange(self->tell_timer_, 0));
        }
        self->TellUnknown(/*settled=*/true);
        self->unknown_ = absl::OkStatus();
        self->current_.reset();
        self->Next();
      });
}

void EtcdTxnQueue::FenceAgain(const absl::Status& why) {
  // What has waited for too long, and with a full store everything, was not sent. The error is that
  // of the fence, after which nothing was done either.
  const bool full = status::Reason(why) == kReasonNoSpace;
  std::deque<Waiting> kept;
  for (Waiting& waiting : std::exchange(queue_, {})) {
    if (full || client_->Now() >= waiting.until) {
      waiting.done(why);
    } else {
      kept.push_back(std::move(waiting));
    }
  }
  for (Waiting& waiting : queue_) kept.push_back(std::move(waiting));
  queue_ = std::move(kept);
  client_->strand()->RunAfter(fence_backoff_.Next(),
                              [self = shared_from_this()] { self->Fence(); });
}

}  // namespace capstan::store
