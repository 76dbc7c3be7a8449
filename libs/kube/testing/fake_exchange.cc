#include "libs/kube/testing/fake_exchange.h"

#include <algorithm>

namespace capstan::kube::testing {

void FakeExchange::PushHead(HttpHead head) {
  absl::MutexLock lock(&mutex_);
  if (!closed_) steps_.push_back({std::move(head), "", absl::nullopt});
}

void FakeExchange::PushBytes(std::string bytes) {
  absl::MutexLock lock(&mutex_);
  if (!closed_ && !bytes.empty())
    steps_.push_back({absl::nullopt, std::move(bytes), absl::nullopt});
}

void FakeExchange::PushEnd(absl::Status status) {
  absl::MutexLock lock(&mutex_);
  if (closed_) return;
  closed_ = true;
  steps_.push_back({absl::nullopt, "", std::move(status)});
}

void FakeExchange::Break(absl::Status status) {
  absl::MutexLock lock(&mutex_);
  steps_.clear();
  closed_ = true;
  broken_ = true;
  const auto is_free = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return !in_handler_ || teller_ == std::this_thread::get_id();
  };
  mutex_.Await(absl::Condition(&is_free));
  // A handler that breaks its own exchange, by a fault that it adds, is told when it has returned.
  if (in_handler_) {
    steps_.push_back({absl::nullopt, "", std::move(status)});
    return;
  }
  if (CanTell()) Tell({absl::nullopt, "", std::move(status)});
}

void FakeExchange::Tell(Step step) {
  in_handler_ = true;
  ++told_;
  teller_ = std::this_thread::get_id();
  resumed_ = false;
  if (step.end.has_value()) ended_ = true;
  mutex_.Unlock();
  bool wants_more = true;
  if (step.head.has_value()) {
    handler_->OnHead(*std::move(step.head));
  } else if (step.end.has_value()) {
    handler_->OnEnd(*std::move(step.end));
  } else {
    wants_more = handler_->OnBytes(step.bytes);
  }
  mutex_.Lock();
  in_handler_ = false;
  paused_ = !wants_more && !resumed_;
}

bool FakeExchange::Deliver(size_t most) {
  absl::MutexLock lock(&mutex_);
  while (CanTell() && !steps_.empty()) {
    Step& front = steps_.front();
    // The end waits too: what was told before it has to be wanted first.
    if (paused_ && !broken_) return false;
    if (front.bytes.size() > most) {
      Step piece{absl::nullopt, front.bytes.substr(0, most), absl::nullopt};
      front.bytes.erase(0, most);
      Tell(std::move(piece));
      return true;
    }
    const bool is_bytes = !front.bytes.empty();
    Step step = std::move(front);
    steps_.pop_front();
    Tell(std::move(step));
    if (is_bytes && most != absl::string_view::npos && CanTell() && !steps_.empty()) return true;
  }
  return false;
}

void FakeExchange::Cancel() {
  absl::MutexLock lock(&mutex_);
  cancelled_ = true;
  closed_ = true;
  const auto is_free = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return !in_handler_ || teller_ == std::this_thread::get_id();
  };
  mutex_.Await(absl::Condition(&is_free));
}

void FakeExchange::Resume() {
  {
    absl::MutexLock lock(&mutex_);
    if (in_handler_) resumed_ = true;
    if (!paused_ || cancelled_ || ended_) return;
    paused_ = false;
  }
  woken_();
}

bool FakeExchange::done() const {
  absl::MutexLock lock(&mutex_);
  return cancelled_ || ended_;
}

bool FakeExchange::hungry() const {
  absl::MutexLock lock(&mutex_);
  return !cancelled_ && !ended_ && !closed_ && !paused_ &&
         (steps_.empty() || (steps_.size() == 1 && steps_.front().head.has_value()));
}

int64_t FakeExchange::told() const {
  absl::MutexLock lock(&mutex_);
  return told_;
}

bool FakeExchange::paused() const {
  absl::MutexLock lock(&mutex_);
  return paused_;
}

}  // namespace capstan::kube::testing
