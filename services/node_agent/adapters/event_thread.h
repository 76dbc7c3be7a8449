#ifndef CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_EVENT_THREAD_H_
#define CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_EVENT_THREAD_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "libs/safe_path/safe_path.h"

namespace capstan::node_agent {

// A thread that runs posted tasks in order, and callbacks when descriptors have something to say.
// Only Post may be called from other threads; the rest belongs to the thread itself.
class EventThread {
 public:
  // `tick` runs about every 20 ms while KeepTicking(true) holds: for what has no event.
  static absl::StatusOr<std::unique_ptr<EventThread>> Create(const std::string& name);
  ~EventThread() { Stop(); }

  // Runs the task in hand to its end, drops the others, joins. Idempotent.
  void Stop();

  void Post(absl::AnyInvocable<void()> task);

  void SetTick(std::function<void()> tick) { tick_ = std::move(tick); }
  void KeepTicking(bool on) { ticking_ = on; }
  // Runs `on_readable` each time the descriptor is readable, until Unwatch. The caller keeps it
  // open.
  absl::Status Watch(int fd, std::function<void()> on_readable);
  void Unwatch(int fd);

 private:
  EventThread() = default;
  void Loop(const std::string& name);

  UniqueFd epoll_;
  UniqueFd wake_;
  absl::Mutex mutex_;
  std::deque<absl::AnyInvocable<void()>> queue_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<int, std::function<void()>> watched_;
  std::function<void()> tick_;
  bool ticking_ = false;
  std::thread thread_;
};

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_EVENT_THREAD_H_
