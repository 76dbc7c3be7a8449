#include "services/telemetry/adapters/sync_threads.h"

namespace capstan::telemetry {

SyncThreads::SyncThreads(int threads) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Loop(); });
}

SyncThreads::~SyncThreads() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  for (std::thread& thread : threads_) thread.join();
}

void SyncThreads::Run(size_t count, absl::FunctionRef<void(size_t)> work) {
  // For one there is nobody to wake.
  if (count == 1) return work(0);
  absl::MutexLock lock(&mutex_);
  work_ = &work;
  next_ = done_ = 0;
  count_ = count;
  Work();
  const auto all_done = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return done_ == count_; };
  mutex_.Await(absl::Condition(&all_done));
  work_ = nullptr;
}

void SyncThreads::Loop() {
  absl::MutexLock lock(&mutex_);
  while (true) {
    const auto has_work = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return stopping_ || next_ < count_;
    };
    mutex_.Await(absl::Condition(&has_work));
    if (stopping_) return;
    Work();
  }
}

void SyncThreads::Work() {
  while (next_ < count_) {
    const size_t taken = next_++;
    absl::FunctionRef<void(size_t)> work = *work_;
    mutex_.Unlock();
    work(taken);
    mutex_.Lock();
    ++done_;
  }
}

}  // namespace capstan::telemetry
