#include "libs/kube/exec/handler_gate.h"

#include <utility>

namespace capstan::kube {

bool HandlerGate::Enter() {
  absl::MutexLock lock(&mutex_);
  if (over_) return false;
  running_ = true;
  thread_ = std::this_thread::get_id();
  return true;
}

void HandlerGate::Leave() {
  absl::MutexLock lock(&mutex_);
  running_ = false;
}

void HandlerGate::Open(absl::string_view subprotocol) {
  if (!Enter()) return;
  handler_->OnOpen(subprotocol);
  Leave();
}

bool HandlerGate::Message(absl::string_view message) {
  if (!Enter()) return false;
  {
    absl::MutexLock lock(&mutex_);
    giving_ = true;
    resumed_ = false;
  }
  const bool more = handler_->OnMessage(message);
  absl::MutexLock lock(&mutex_);
  giving_ = false;
  running_ = false;
  paused_ = !more && !resumed_;
  return !paused_;
}

void HandlerGate::Sent() {
  if (!Enter()) return;
  handler_->OnSent();
  Leave();
}

void HandlerGate::End(WebSocketEnd end) {
  if (!Enter()) return;
  {
    absl::MutexLock lock(&mutex_);
    over_ = true;
  }
  handler_->OnEnd(std::move(end));
  Leave();
}

bool HandlerGate::Resume() {
  absl::MutexLock lock(&mutex_);
  if (giving_) resumed_ = true;
  if (giving_ || over_ || !paused_) return false;
  paused_ = false;
  return true;
}

void HandlerGate::Cancel() {
  absl::MutexLock lock(&mutex_);
  over_ = true;
  if (running_ && thread_ == std::this_thread::get_id()) return;
  mutex_.Await(absl::Condition(
      +[](HandlerGate* gate) ABSL_NO_THREAD_SAFETY_ANALYSIS { return !gate->running_; }, this));
}

}  // namespace capstan::kube
