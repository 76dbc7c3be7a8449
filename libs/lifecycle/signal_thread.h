#ifndef CAPSTAN_LIBS_LIFECYCLE_SIGNAL_THREAD_H_
#define CAPSTAN_LIBS_LIFECYCLE_SIGNAL_THREAD_H_

#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"

namespace capstan::lifecycle {

// Takes signals by sigwait on a thread of its own, so that what answers them may lock, allocate and
// log. Must be made before any other thread of the process: the signals are blocked in the calling
// thread, and threads made later inherit that. They stay blocked when the object is gone; a child
// process must unblock them before exec (see UnblockSignals).
class SignalThread {
 public:
  // `on_signal` runs on the thread, once for each signal taken.
  static absl::StatusOr<std::unique_ptr<SignalThread>> Create(
      std::vector<int> signals, std::function<void(int signal)> on_signal);
  // Joins the thread; a call of `on_signal` in hand ends first. Not to be called from `on_signal`.
  ~SignalThread();
  SignalThread(const SignalThread&) = delete;
  SignalThread& operator=(const SignalThread&) = delete;

 private:
  SignalThread(std::vector<int> signals, std::function<void(int)> on_signal);
  void Loop();

  const std::vector<int> signals_;
  const std::function<void(int)> on_signal_;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

// Unblocks every signal and restores the default actions of those that SignalThreads block;
// async-signal-safe, for a child between fork and exec.
void UnblockSignals();

}  // namespace capstan::lifecycle

#endif  // CAPSTAN_LIBS_LIFECYCLE_SIGNAL_THREAD_H_
