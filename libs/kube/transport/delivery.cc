#include "libs/kube/transport/delivery.h"

#include <algorithm>
#include <utility>

namespace capstan::kube {
namespace {

// What was held goes out in pieces, so that the handler's false stops it soon.
constexpr size_t kPiece = size_t{16} << 10;

}  // namespace

bool Delivery::Enter() {
  absl::MutexLock lock(&mutex_);
  if (cancelled_ || ended_) return false;
  running_ = true;
  thread_ = std::this_thread::get_id();
  return true;
}

void Delivery::Leave() {
  absl::MutexLock lock(&mutex_);
  running_ = false;
}

void Delivery::Head(HttpHead head) {
  if (!Enter()) return;
  handler_->OnHead(std::move(head));
  Leave();
}

void Delivery::Give(absl::string_view bytes) {
  {
    absl::MutexLock lock(&mutex_);
    if (cancelled_ || ended_) return;
    running_ = true;
    thread_ = std::this_thread::get_id();
    giving_ = true;
    resumed_ = false;
  }
  const bool wanted = handler_->OnBytes(bytes);
  absl::MutexLock lock(&mutex_);
  running_ = false;
  giving_ = false;
  paused_ = !wanted && !resumed_;
}

void Delivery::Bytes(absl::string_view bytes) {
  if (bytes.empty() || done()) return;
  if (held() == 0 && !paused()) {
    Give(bytes);
    return;
  }
  if (taken_ > held_.size() / 2) {
    held_.erase(0, taken_);
    taken_ = 0;
  }
  held_.append(bytes.data(), bytes.size());
}

void Delivery::Finish(absl::Status status) {
  if (end_.has_value()) return;
  end_ = std::move(status);
  Drain();
}

void Delivery::Abort(absl::Status status) {
  held_.clear();
  taken_ = 0;
  end_ = std::move(status);
  Drain();
}

void Delivery::Drain() {
  {
    absl::MutexLock lock(&mutex_);
    if (resuming_) paused_ = false;
    resuming_ = false;
  }
  while (held() > 0 && !paused() && !done()) {
    const absl::string_view piece =
        absl::string_view(held_).substr(taken_, std::min(kPiece, held()));
    // Before it is given: held() does not count what the handler has.
    taken_ += piece.size();
    Give(piece);
  }
  if (held() > 0) return;
  held_.clear();
  held_.shrink_to_fit();
  taken_ = 0;
  if (!end_.has_value()) return;
  {
    absl::MutexLock lock(&mutex_);
    if (cancelled_ || ended_) return;
    ended_ = true;
    running_ = true;
    thread_ = std::this_thread::get_id();
  }
  handler_->OnEnd(*end_);
  Leave();
}

bool Delivery::paused() const {
  absl::MutexLock lock(&mutex_);
  return paused_;
}

bool Delivery::done() const {
  absl::MutexLock lock(&mutex_);
  return cancelled_ || ended_;
}

bool Delivery::Resume() {
  absl::MutexLock lock(&mutex_);
  if (cancelled_ || ended_) return false;
  if (giving_) {
    resumed_ = true;
    return false;
  }
  if (!paused_ || resuming_) return false;
  resuming_ = true;
  return true;
}

bool Delivery::Cancel() {
  absl::MutexLock lock(&mutex_);
  cancelled_ = true;
  if (!running_ || thread_ != std::this_thread::get_id()) {
    mutex_.Await(absl::Condition(+[](bool* running) { return !*running; }, &running_));
  }
  return !ended_;
}

}  // namespace capstan::kube
