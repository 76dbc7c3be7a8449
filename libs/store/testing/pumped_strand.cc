#include "libs/store/testing/pumped_strand.h"

#include <algorithm>

namespace capstan::store {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(60);
constexpr absl::Duration kSlice = absl::Milliseconds(20);

}  // namespace

void PumpedStrand::Post(Task task) {
  absl::MutexLock lock(&mutex_);
  queue_.push_back(std::move(task));
}

Strand::TimerId PumpedStrand::RunAt(BootTime when, Task task) {
  absl::MutexLock lock(&mutex_);
  const TimerId id = next_timer_++;
  timers_.emplace(std::make_pair(when, id), std::move(task));
  timer_times_.emplace(id, when);
  return id;
}

bool PumpedStrand::Cancel(TimerId timer) {
  Task doomed;
  absl::MutexLock lock(&mutex_);
  const auto it = timer_times_.find(timer);
  if (it == timer_times_.end()) return false;
  const auto entry = timers_.find(std::make_pair(it->second, timer));
  doomed = std::move(entry->second);
  timers_.erase(entry);
  timer_times_.erase(it);
  return true;
}

void PumpedStrand::QueueDueTimers() {
  absl::MutexLock lock(&mutex_);
  const BootTime now = clock_.Read().boot;
  while (!timers_.empty() && timers_.begin()->first.first <= now) {
    timer_times_.erase(timers_.begin()->first.second);
    queue_.push_back(std::move(timers_.begin()->second));
    timers_.erase(timers_.begin());
  }
}

bool PumpedStrand::RunOne() {
  QueueDueTimers();
  Task task;
  {
    absl::MutexLock lock(&mutex_);
    if (queue_.empty()) return false;
    task = std::move(queue_.front());
    queue_.pop_front();
  }
  std::move(task)();
  return true;
}

void PumpedStrand::RunReady() {
  while (RunOne()) {
  }
}

bool PumpedStrand::RunUntil(absl::FunctionRef<bool()> done) {
  const absl::Time deadline = absl::Now() + kPatience;
  while (true) {
    RunReady();
    if (done()) return true;
    absl::MutexLock lock(&mutex_);
    const auto posted = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !queue_.empty(); };
    if (!mutex_.AwaitWithDeadline(absl::Condition(&posted), deadline)) return false;
  }
}

void PumpedStrand::RunFor(absl::Duration real) {
  const absl::Time end = absl::Now() + real;
  while (absl::Now() < end) {
    Advance(kSlice);
    const absl::Time slice_end = std::min(end, absl::Now() + kSlice);
    while (absl::Now() < slice_end) {
      RunReady();
      absl::MutexLock lock(&mutex_);
      const auto posted = [this]()
                              ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !queue_.empty(); };
      mutex_.AwaitWithDeadline(absl::Condition(&posted), slice_end);
    }
  }
}

void PumpedStrand::Advance(absl::Duration d) {
  const BootTime end = clock_.Read().boot + d;
  RunReady();
  while (true) {
    BootTime next = BootTime::InfiniteFuture();
    {
      absl::MutexLock lock(&mutex_);
      if (!timers_.empty()) next = timers_.begin()->first.first;
    }
    if (next > end) break;
    clock_.Advance(std::max(absl::ZeroDuration(), next - clock_.Read().boot));
    RunReady();
  }
  clock_.Advance(end - clock_.Read().boot);
  RunReady();
}

}  // namespace capstan::store
