#include "libs/strand/simulated_strand.h"

namespace capstan {

Strand::TimerId SimulatedStrand::RunAt(BootTime when, Task task) {
  const TimerId id = next_timer_++;
  timers_.emplace(std::make_pair(when, id), std::move(task));
  timer_times_.emplace(id, when);
  return id;
}

bool SimulatedStrand::Cancel(TimerId timer) {
  const auto it = timer_times_.find(timer);
  if (it == timer_times_.end()) return due_.erase(timer) != 0;
  timers_.erase(std::make_pair(it->second, timer));
  timer_times_.erase(it);
  return true;
}

void SimulatedStrand::RunReady() {
  while (true) {
    const BootTime now = clock_->Read().boot;
    while (!timers_.empty() && timers_.begin()->first.first <= now) {
      const TimerId timer = timers_.begin()->first.second;
      timer_times_.erase(timer);
      due_.insert(timer);
      queue_.push_back({timer, std::move(timers_.begin()->second)});
      timers_.erase(timers_.begin());
    }
    if (queue_.empty()) return;
    Queued next = std::move(queue_.front());
    queue_.pop_front();
    if (next.timer == 0 || due_.erase(next.timer) != 0) std::move(next.task)();
  }
}

void SimulatedStrand::Advance(absl::Duration d) {
  const BootTime end = clock_->Read().boot + d;
  RunReady();
  while (next_timer_time() <= end) {
    clock_->Advance(next_timer_time() - clock_->Read().boot);
    RunReady();
  }
  clock_->Advance(end - clock_->Read().boot);
  RunReady();
}

bool SimulatedStrand::RunNext() {
  if (queue_.empty() && timers_.empty()) return false;
  if (queue_.empty() && next_timer_time() > clock_->Read().boot) {
    clock_->Advance(next_timer_time() - clock_->Read().boot);
  }
  RunReady();
  return true;
}

}  // namespace capstan
