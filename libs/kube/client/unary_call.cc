#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/kube/client/client_core.h"
#include "libs/kube/client/server_error.h"
#include "libs/status/error.h"

namespace capstan::kube {
namespace {

class UnaryCall;

struct Outcome {
  absl::Status status;
  HttpHead head;
  std::string body;
  bool too_large = false;
};

// Gathers one response on the transport's thread, and posts it whole.
class Attempt final : public ResponseHandler {
 public:
  Attempt(Strand::Remote remote, std::weak_ptr<UnaryCall> owner, size_t max_bytes)
      : remote_(std::move(remote)), owner_(std::move(owner)), max_bytes_(max_bytes) {}

  void OnHead(HttpHead head) override {
    outcome_.head = std::move(head);
    if (outcome_.head.status >= 300) max_bytes_ = kMaxErrorBytes;
  }
  bool OnBytes(absl::string_view bytes) override;
  void OnEnd(absl::Status status) override;

 private:
  void Finish();

  const Strand::Remote remote_;
  const std::weak_ptr<UnaryCall> owner_;
  size_t max_bytes_;
  Outcome outcome_;
  bool finished_ = false;
};

class UnaryCall final : public OpenCall, public std::enable_shared_from_this<UnaryCall> {
 public:
  UnaryCall(std::shared_ptr<Client::Core> core, ApiRequest request, Client::Done done)
      : core_(std::move(core)), request_(std::move(request)), done_(std::move(done)) {
    core_->open.insert(this);
  }
  ~UnaryCall() override { Cancel(); }

  void Begin() {
    const BootTime now = core_->strand->clock().Read().boot;
    deadline_ = now + request_.timeout.value_or(core_->options.total_timeout);
    SendWhenAllowed(now);
  }

  void Cancel() override {
    if (core_ == nullptr) return;
    core_->open.erase(this);
    if (timer_ != 0) core_->strand->Cancel(timer_);
    call_.reset();
    core_ = nullptr;
    // Last: it may own the handle, and with it this call.
    const Client::Done done = std::move(done_);
  }

  void OnOutcome(const Attempt* attempt, Outcome outcome) {
    // One that was given up has posted before.
    if (core_ == nullptr || attempt != attempt_.get()) return;
    call_.reset();
    attempt_.reset();
    const std::shared_ptr<Client::Core> core = core_;
    const std::shared_ptr<UnaryCall> self = shared_from_this();
    core->Warn(request_, outcome.head.headers);
    // Whoever was warned may have cancelled.
    if (core_ == nullptr) return;
    absl::Status failure = Failure(outcome);
    if (failure.ok()) {
      core_->retry.OnSuccess();
      End(ApiResponse{outcome.head.status, std::move(outcome.head.headers),
                      std::move(outcome.body)});
      return;
    }
    const BootTime now = core_->strand->clock().Read().boot;
    const auto again = core_->retry.OnFailure(failure, request_.repeat, attempts_, now, deadline_);
    if (again.has_value()) {
      SendAt(*again);
    } else {
      End(OfCall(request_, failure));
    }
  }

 private:
  absl::Status Failure(const Outcome& outcome) const {
    if (outcome.head.status >= 300) {
      // Of a page that broke off the status is still the answer.
      return ServerError(outcome.head.status, outcome.head.headers, outcome.body);
    }
    if (outcome.too_large) {
      return status::Error(
          absl::StatusCode::kResourceExhausted, kResponseTooLarge,
          absl::StrCat("the response has more than ", core_->options.max_response_bytes,
                       " bytes; ask for pages (limit), or raise max_response_bytes"));
    }
    return outcome.status;
  }

  void SendWhenAllowed(BootTime now) {
    const BootTime when = core_->limiter.has_value() ? core_->limiter->Take(now) : now;
    // A timer, too, if it is now: nothing is done inline.
    SendAt(when);
  }

  void SendAt(BootTime when) {
    timer_ = core_->strand->RunAt(when, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->Send();
    });
  }

  void Send() {
    timer_ = 0;
    const absl::Duration left = deadline_ - core_->strand->clock().Read().boot;
    if (left <= absl::ZeroDuration()) {
      End(OfCall(request_,
                 status::Error(absl::StatusCode::kDeadlineExceeded, "KUBE_NOT_SENT_IN_TIME",
                               "the client's own rate limit kept the call back until its "
                               "deadline; raise the limit or the timeout")));
      return;
    }
    ++attempts_;
    attempt_ = std::make_unique<Attempt>(core_->strand->remote(), weak_from_this(),
                                         core_->options.max_response_bytes);
    call_ = core_->transport->Start(
        core_->MakeHttp(request_, std::min(left, core_->options.attempt_timeout)), attempt_.get());
  }

  void End(absl::StatusOr<ApiResponse> result) {
    // The callback may destroy the call, and the client.
    const std::shared_ptr<UnaryCall> self = shared_from_this();
    Client::Done done = std::move(done_);
    Cancel();
    done(std::move(result));
  }

  // Null once the call is over.
  std::shared_ptr<Client::Core> core_;
  const ApiRequest request_;
  Client::Done done_;
  BootTime deadline_;
  int attempts_ = 0;
  Strand::TimerId timer_ = 0;
  // Outlives `call_`, which calls it.
  std::unique_ptr<Attempt> attempt_;
  std::unique_ptr<Call> call_;
};

bool Attempt::OnBytes(absl::string_view bytes) {
  if (finished_) return false;
  if (outcome_.body.size() + bytes.size() <= max_bytes_) {
    outcome_.body.append(bytes.data(), bytes.size());
    return true;
  }
  outcome_.too_large = true;
  Finish();
  return false;
}

void Attempt::OnEnd(absl::Status status) {
  if (finished_) return;
  outcome_.status = std::move(status);
  Finish();
}

void Attempt::Finish() {
  finished_ = true;
  remote_.Post([owner = owner_, self = this, outcome = std::move(outcome_)]() mutable {
    if (const auto call = owner.lock()) call->OnOutcome(self, std::move(outcome));
  });
}

class UnaryHandle final : public PendingCall {
 public:
  explicit UnaryHandle(std::shared_ptr<UnaryCall> call) : call_(std::move(call)) {}
  ~UnaryHandle() override { call_->Cancel(); }

 private:
  const std::shared_ptr<UnaryCall> call_;
};

}  // namespace

std::unique_ptr<PendingCall> StartUnary(std::shared_ptr<Client::Core> core, ApiRequest request,
                                        Client::Done done) {
  auto call = std::make_shared<UnaryCall>(std::move(core), std::move(request), std::move(done));
  call->Begin();
  return std::make_unique<UnaryHandle>(std::move(call));
}

}  // namespace capstan::kube
