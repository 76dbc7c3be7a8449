#include "libs/kube/transport/call_loop.h"

#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/kube/transport/request_rules.h"
#include "libs/kube/transport/transport_error.h"
#include "libs/status/error.h"

namespace capstan::kube {
namespace {

class LoopCall final : public Call {
 public:
  LoopCall(std::shared_ptr<CallLoop> loop, std::shared_ptr<Delivery> delivery, uint64_t id)
      : loop_(std::move(loop)), delivery_(std::move(delivery)), id_(id) {}
  ~LoopCall() override {
    // The loop itself forgets what has ended, and need not be woken for it.
    if (delivery_->Cancel()) loop_->Forget(id_);
  }

  void Resume() override {
    if (delivery_->Resume()) loop_->Resume(id_);
  }

 private:
  const std::shared_ptr<CallLoop> loop_;
  const std::shared_ptr<Delivery> delivery_;
  const uint64_t id_;
};

class LoopTransport final : public Transport {
 public:
  explicit LoopTransport(std::shared_ptr<CallLoop> loop) : loop_(std::move(loop)) {}
  ~LoopTransport() override { loop_->Stop(); }

  std::unique_ptr<Call> Start(HttpRequest request, ResponseHandler* handler) override {
    auto delivery = std::make_shared<Delivery>(handler);
    const uint64_t id = next_id_++;
    absl::Status refusal = CheckRequest(request);
    auto call = std::make_unique<LoopCall>(loop_, delivery, id);
    loop_->Start(id, std::move(request), std::move(delivery), std::move(refusal));
    return call;
  }

 private:
  const std::shared_ptr<CallLoop> loop_;
  std::atomic<uint64_t> next_id_{1};
};

}  // namespace

absl::Status TooManyCalls(int bound) {
  return status::Error(
      absl::StatusCode::kUnavailable, kNotSent,
      absl::StrCat("more than ", bound, " calls to one API server are under way; wait for some"));
}

absl::Status NoCredential(const absl::Status& why) {
  return status::Error(absl::StatusCode::kUnauthenticated, kNoCredential,
                       absl::StrCat("no credential for the API server: ", why.message()));
}

absl::Status LoopStopped() {
  return status::Error(absl::StatusCode::kCancelled, kStopped,
                       "the transport to the API server is being ended");
}

std::unique_ptr<Transport> MakeLoopTransport(std::shared_ptr<CallLoop> loop) {
  return std::make_unique<LoopTransport>(std::move(loop));
}

}  // namespace capstan::kube
