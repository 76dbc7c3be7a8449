#ifndef CAPSTAN_LIBS_LIFECYCLE_GROUPS_H_
#define CAPSTAN_LIBS_LIFECYCLE_GROUPS_H_

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "libs/log/log.h"
#include "libs/time/clock.h"

namespace capstan::lifecycle {

// Something that is started and stopped: a server, a thread, a store.
struct Part {
  // For the log.
  std::string name;
  // Returns once the part does its work; may be empty.
  std::function<absl::Status()> start;
  // Returns once nothing of the part runs, and tries to by `deadline`; may be empty. Called exactly
  // once for each part that was started, never for others.
  std::function<void(BootTime deadline)> stop;
};

// Starts and stops the parts of a process in order.
//
// Parts added together are siblings: started in their order, stopped at the same time. Every group
// depends on the groups added before it, so those are stopped only after it has wholly ended. The
// first failure, be it of a start, a report of Fail, or a signal that calls RequestStop, begins the
// end; there is no restart within a process.
class Groups {
 public:
  // Both must outlive the object.
  Groups(const Clock* clock, const log::Logger* log) : clock_(clock), log_(log) {}
  Groups(const Groups&) = delete;
  Groups& operator=(const Groups&) = delete;

  // Before Start only.
  void Add(std::vector<Part> siblings);

  // Starts everything. If a part fails, stops those already started, within `drain`, and returns
  // the part's error with its name.
  absl::Status Start(absl::Duration drain);

  // Asks for the end; the first cause is kept, OK meaning that all is well. From any thread, but
  // not from a signal handler.
  void RequestStop(absl::Status cause);

  // Blocks until RequestStop was called; returns its cause.
  absl::Status WaitForStopRequest();

  // Stops everything in reverse, all within `drain`. Idempotent. Parts are told the deadline and
  // answer for it themselves: a part that overstays is named in the log and waited for.
  void Stop(absl::Duration drain);

 private:
  void StopGroup(std::vector<Part*> parts, BootTime deadline);
  void StopPart(Part* part, BootTime deadline);

  const Clock* const clock_;
  const log::Logger* const log_;
  // Touched by the owner's thread only.
  std::vector<std::vector<Part>> groups_;
  // For each group, how many of its parts have been started.
  std::vector<size_t> started_;

  absl::Mutex mutex_;
  bool stop_requested_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status cause_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace capstan::lifecycle

#endif  // CAPSTAN_LIBS_LIFECYCLE_GROUPS_H_
