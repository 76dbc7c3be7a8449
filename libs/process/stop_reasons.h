#ifndef CAPSTAN_LIBS_PROCESS_STOP_REASONS_H_
#define CAPSTAN_LIBS_PROCESS_STOP_REASONS_H_

#include <deque>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace capstan::process {

// Why a process is to stop, or what it is told: in the order of coming, for one thread that waits.
// Any thread adds.
class StopReasons {
 public:
  // Beside the numbers of signals, which are all above them.
  static constexpr int kIdentityExpired = 0;
  static constexpr int kEnded = -1;

  // A signal's number, or kIdentityExpired.
  void Add(int reason) {
    absl::MutexLock lock(&mutex_);
    reasons_.push_back(reason);
  }
  // Adds kEnded.
  void End(absl::Status why) {
    absl::MutexLock lock(&mutex_);
    why_ = std::move(why);
    reasons_.push_back(kEnded);
  }
  // What was told last to End.
  absl::Status why() {
    absl::MutexLock lock(&mutex_);
    return why_;
  }
  // Blocks until there is one, and takes it.
  int Wait() {
    absl::MutexLock lock(&mutex_);
    const auto any = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !reasons_.empty(); };
    mutex_.Await(absl::Condition(&any));
    const int reason = reasons_.front();
    reasons_.pop_front();
    return reason;
  }

 private:
  absl::Mutex mutex_;
  std::deque<int> reasons_ ABSL_GUARDED_BY(mutex_);
  absl::Status why_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace capstan::process

#endif  // CAPSTAN_LIBS_PROCESS_STOP_REASONS_H_
