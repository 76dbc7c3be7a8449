#ifndef CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_WORK_THREADS_H_
#define CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_WORK_THREADS_H_

#include <atomic>
#include <deque>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace capstan::node_agent {

// Threads for work that blocks, in the order in which it was given. Thread-safe.
class WorkThreads {
 public:
  using Work = absl::AnyInvocable<void()>;

  explicit WorkThreads(int threads);
  // Waits for the work in hand, which should look at stopping(); what is queued is destroyed unrun.
  ~WorkThreads();
  WorkThreads(const WorkThreads&) = delete;
  WorkThreads& operator=(const WorkThreads&) = delete;

  void Run(Work work);
  // From now on nothing more is begun.
  void Stop();
  const std::atomic<bool>& stopping() const { return stop_; }
  // For work: returns after `pause` of real time, or as soon as the threads stop.
  void Pause(absl::Duration pause);

 private:
  void Loop();

  std::atomic<bool> stop_ = false;
  absl::Mutex mutex_;
  std::deque<Work> queue_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;
};

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_WORK_THREADS_H_
