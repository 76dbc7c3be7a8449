#include "services/node_agent/adapters/work_threads.h"

#include <utility>

namespace capstan::node_agent {

WorkThreads::WorkThreads(int threads) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Loop(); });
}

WorkThreads::~WorkThreads() {
  Stop();
  for (std::thread& thread : threads_) thread.join();
}

void WorkThreads::Stop() {
  // Under the mutex, so that those who wait for it look again.
  absl::MutexLock lock(&mutex_);
  stop_ = true;
}

void WorkThreads::Run(Work work) {
  absl::MutexLock lock(&mutex_);
  queue_.push_back(std::move(work));
}

void WorkThreads::Pause(absl::Duration pause) {
  absl::MutexLock lock(&mutex_);
  mutex_.AwaitWithTimeout(
      absl::Condition(+[](std::atomic<bool>* stop) { return stop->load(); }, &stop_), pause);
}

void WorkThreads::Loop() {
  while (true) {
    Work work;
    {
      absl::MutexLock lock(&mutex_);
      const auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return stop_ || !queue_.empty();
      };
      mutex_.Await(absl::Condition(&ready));
      if (stop_) return;
      work = std::move(queue_.front());
      queue_.pop_front();
    }
    work();
  }
}

}  // namespace capstan::node_agent
