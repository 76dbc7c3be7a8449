// A process in a test of several: its own clock, and a strand that may stick.
#ifndef CAPSTAN_LIBS_KUBE_LEADER_ELECTION_SKEWED_STRAND_H_
#define CAPSTAN_LIBS_KUBE_LEADER_ELECTION_SKEWED_STRAND_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <utility>

#include "absl/time/time.h"
#include "libs/strand/simulated_strand.h"
#include "libs/strand/strand.h"
#include "libs/time/clock.h"

namespace capstan::kube::testing {

// Goes at (1 + ppm / 1,000,000) times the rate of `base`, which must outlive it.
class SkewedClock final : public Clock {
 public:
  SkewedClock(const Clock* base, int64_t ppm, absl::Duration offset, absl::Duration wall_offset)
      : base_(base), ppm_(ppm), offset_(offset), wall_offset_(wall_offset) {}

  Now Read() const override {
    const Now now = base_->Read();
    return {now.wall + wall_offset_, Skew(now.boot)};
  }
  // The first moment of the base at which this clock has reached `when`.
  BootTime ToBase(BootTime when) const {
    if (when == BootTime::InfiniteFuture()) return when;
    const absl::Duration local = when - BootTime() - offset_;
    BootTime base = BootTime() + local * 1'000'000 / (1'000'000 + ppm_);
    while (Skew(base) < when) base = base + absl::Nanoseconds(1);
    return base;
  }

 private:
  BootTime Skew(BootTime base) const {
    const absl::Duration d = base - BootTime();
    return BootTime() + offset_ + d + d * ppm_ / 1'000'000;
  }

  const Clock* const base_;
  const int64_t ppm_;
  const absl::Duration offset_;
  const absl::Duration wall_offset_;
};

// Runs on `base`, by `clock`; both must outlive it. For one thread.
class SkewedStrand final : public Strand {
 public:
  SkewedStrand(SimulatedStrand* base, const SkewedClock* clock) : base_(base), clock_(clock) {}
  ~SkewedStrand() override {
    CloseRemotes();
    for (auto& [id, timer] : timers_) base_->Cancel(timer.base);
  }

  void Post(Task task) override {
    queue_.push_back({0, std::move(task)});
    Wake();
  }
  TimerId RunAt(BootTime when, Task task) override {
    const TimerId id = ++last_timer_;
    Timer& timer = timers_[id];
    timer.task = std::move(task);
    timer.base = base_->RunAt(clock_->ToBase(when), [this, id] {
      queue_.push_back({id, nullptr});
      Wake();
    });
    return id;
  }
  bool Cancel(TimerId id) override {
    const auto found = timers_.find(id);
    if (found == timers_.end()) return false;
    base_->Cancel(found->second.base);
    timers_.erase(found);
    return true;
  }
  const Clock& clock() const override { return *clock_; }

  // Nothing runs while it is stuck; its clock goes on.
  void SetStuck(bool stuck) {
    stuck_ = stuck;
    if (!stuck) Wake();
  }

 private:
  struct Timer {
    TimerId base = 0;
    Task task;
  };
  struct Queued {
    TimerId timer = 0;
    Task task;
  };

  void Wake() {
    if (stuck_) return;
    base_->Post([alive = std::weak_ptr<char>(alive_), this] {
      if (alive.lock() != nullptr) RunOne();
    });
  }
  void RunOne() {
    if (stuck_ || queue_.empty()) return;
    Queued next = std::move(queue_.front());
    queue_.pop_front();
    // Of those that came while it was stuck.
    if (!queue_.empty()) Wake();
    if (next.timer != 0) {
      const auto found = timers_.find(next.timer);
      if (found == timers_.end()) return;
      next.task = std::move(found->second.task);
      timers_.erase(found);
    }
    next.task();
  }

  SimulatedStrand* const base_;
  const SkewedClock* const clock_;
  std::deque<Queued> queue_;
  std::map<TimerId, Timer> timers_;
  TimerId last_timer_ = 0;
  bool stuck_ = false;
  const std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace capstan::kube::testing

#endif  // CAPSTAN_LIBS_KUBE_LEADER_ELECTION_SKEWED_STRAND_H_
