#ifndef CAPSTAN_LIBS_STRAND_STRAND_H_
#define CAPSTAN_LIBS_STRAND_STRAND_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"
#include "libs/time/clock.h"

namespace capstan {

// A serial task queue with timers: the one place where an engine's state is touched. Tasks run one
// at a time, in the order in which they were posted; a timer's task runs at or after its time, in
// the order of (time, arming). Tasks must not block.
//
// Post, RunAt and Cancel may be called from any thread, also from a task. After the strand has
// begun to stop, posted tasks are destroyed without being run.
class Strand {
 public:
  using Task = absl::AnyInvocable<void()>;
  // Identifies an armed timer; 0 is never one.
  using TimerId = uint64_t;

  // Posts for those who may outlive the strand, as callbacks on a library's threads do. Once the
  // strand stops, tasks are destroyed unrun. A value; thread-safe.
  class Remote {
   public:
    void Post(Task task) const {
      absl::MutexLock lock(&gate_->mutex);
      if (gate_->strand != nullptr) gate_->strand->Post(std::move(task));
    }

   private:
    friend class Strand;
    struct Gate {
      absl::Mutex mutex;
      Strand* strand ABSL_GUARDED_BY(mutex) = nullptr;
    };
    explicit Remote(std::shared_ptr<Gate> gate) : gate_(std::move(gate)) {}

    std::shared_ptr<Gate> gate_;
  };

  Strand() {
    absl::MutexLock lock(&gate_->mutex);
    gate_->strand = this;
  }
  virtual ~Strand() { CloseRemotes(); }
  Strand(const Strand&) = delete;
  Strand& operator=(const Strand&) = delete;

  Remote remote() const { return Remote(gate_); }

  virtual void Post(Task task) = 0;
  // Runs `task` once the clock reaches `when`; at once (but not inline) if it already has.
  virtual TimerId RunAt(BootTime when, Task task) = 0;
  TimerId RunAfter(absl::Duration delay, Task task) {
    return RunAt(clock().Read().boot + delay, std::move(task));
  }
  // True if the timer was armed and now will not run. On the strand itself a false return means
  // that it has run or was cancelled; from another thread it may also be about to run.
  virtual bool Cancel(TimerId timer) = 0;

  // The clock that the timers follow.
  virtual const Clock& clock() const = 0;

 protected:
  // Cuts the remotes off. A strand that other threads post to calls it before it begins to stop.
  void CloseRemotes() {
    absl::MutexLock lock(&gate_->mutex);
    gate_->strand = nullptr;
  }

 private:
  const std::shared_ptr<Remote::Gate> gate_ = std::make_shared<Remote::Gate>();
};

}  // namespace capstan

#endif  // CAPSTAN_LIBS_STRAND_STRAND_H_
