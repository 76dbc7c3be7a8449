#include "libs/strand/thread_strand.h"

#include <pthread.h>

#include <algorithm>

namespace capstan {
namespace {

// CLOCK_BOOTTIME goes on while the machine is suspended and the condition variable's clock does
// not, so a long wait is cut into pieces.
constexpr absl::Duration kLongestWait = absl::Seconds(1);

}  // namespace

ThreadStrand::ThreadStrand(const std::string& name, const Clock* clock) : clock_(clock) {
  thread_ = std::thread([this] { Loop(); });
  ::pthread_setname_np(thread_.native_handle(), name.substr(0, 15).c_str());
}

ThreadStrand::~ThreadStrand() { Stop(); }

void ThreadStrand::Stop() {
  CloseRemotes();
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    woken_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

void ThreadStrand::Post(Task task) {
  absl::MutexLock lock(&mutex_);
  if (stopping_) return;
  queue_.push_back({0, std::move(task)});
  woken_ = true;
}

Strand::TimerId ThreadStrand::RunAt(BootTime when, Task task) {
  absl::MutexLock lock(&mutex_);
  const TimerId id = next_timer_++;
  if (stopping_) return id;
  timers_.emplace(TimerKey(when, id), std::move(task));
  timer_times_.emplace(id, when);
  woken_ = true;
  return id;
}

bool ThreadStrand::Cancel(TimerId timer) {
  Task doomed;
  absl::MutexLock lock(&mutex_);
  const auto it = timer_times_.find(timer);
  if (it == timer_times_.end()) return due_.erase(timer) != 0;
  const auto entry = timers_.find(TimerKey(it->second, timer));
  doomed = std::move(entry->second);
  timers_.erase(entry);
  timer_times_.erase(it);
  return true;
}

void ThreadStrand::Loop() {
  while (true) {
    Task task;
    bool runs = true;
    {
      absl::MutexLock lock(&mutex_);
      while (true) {
        if (stopping_) break;
        // Timers that are due go to the back of the queue, so that neither starves the other.
        const BootTime now = clock_->Read().boot;
        while (!timers_.empty() && timers_.begin()->first.first <= now) {
          const TimerId timer = timers_.begin()->first.second;
          timer_times_.erase(timer);
          due_.insert(timer);
          queue_.push_back({timer, std::move(timers_.begin()->second)});
          timers_.erase(timers_.begin());
        }
        if (!queue_.empty()) break;
        absl::Duration wait = kLongestWait;
        if (!timers_.empty()) wait = std::min(wait, timers_.begin()->first.first - now);
        woken_ = false;
        mutex_.AwaitWithTimeout(absl::Condition(&woken_), wait);
      }
      if (stopping_) break;
      task = std::move(queue_.front().task);
      const TimerId timer = queue_.front().timer;
      queue_.pop_front();
      runs = timer == 0 || due_.erase(timer) != 0;
    }
    if (runs) std::move(task)();
  }
  // Tasks own what they captured; they are destroyed on this thread, outside the lock.
  std::deque<Queued> queue;
  std::map<TimerKey, Task> timers;
  absl::MutexLock lock(&mutex_);
  queue.swap(queue_);
  timers.swap(timers_);
  timer_times_.clear();
  due_.clear();
}

}  // namespace capstan
