// When a Task must end, decided the same way by the shim and by the simulation.
#ifndef CAPSTAN_SERVICES_NODE_AGENT_CORE_SHIM_DEADLINE_H_
#define CAPSTAN_SERVICES_NODE_AGENT_CORE_SHIM_DEADLINE_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "libs/time/clock.h"
#include "proto/capstan/nodeagent/v1/shim.pb.h"
#include "proto/capstan/type/v1/task.pb.h"

namespace capstan::node_agent {

// What a shim must do to its Task now.
struct ShimActions {
  // SIGTERM to the Task's process group.
  bool terminate = false;
  // End everything in the Task, and keep at it until nothing is left.
  bool kill = false;

  friend bool operator==(const ShimActions&, const ShimActions&) = default;
};

// How a Task's program went, as far as its shim saw.
struct ProgramEnd {
  // exec or what comes before it failed; `message` says how.
  bool exec_failed = false;
  std::string message = "";
  // From its wait status; meaningless with exec_failed.
  bool signaled = false;
  int code = 0;
  // Kernel kills in the Task for want of memory.
  int64_t out_of_memory_kills = 0;
  // The agent has ended the cgroup itself.
  bool killed_by_agent = false;
};

// The pure part of a shim. A Task is dead by its deadline, grace included: it gets SIGTERM at
// deadline less grace and is killed at the deadline. Controls raise the deadline; a lower one is
// ignored. A stop terminates at once and kills at the earlier of its own grace's end and the
// deadline; a repeated stop may only bring the kill forward. Once termination has begun for the
// deadline's sake it is not taken back. Each action is given once.
//
// Values in, actions out: no clock, no I/O. Copyable.
class ShimDeadline {
 public:
  // `grace` below zero counts as zero.
  ShimDeadline(BootTime deadline, absl::Duration grace);
  explicit ShimDeadline(const capstan::nodeagent::v1::ShimSpec& spec);

  // The agent's newest control; level, so a repeated one changes nothing.
  ShimActions OnControl(const capstan::nodeagent::v1::ShimControl& control, BootTime now);
  // Time has passed.
  ShimActions OnTick(BootTime now);
  // The next time at which OnTick gives an action; absent once the kill has been given.
  absl::optional<BootTime> NextTick() const;

  // The time by which the Task is dead, as things stand.
  BootTime KillTime() const;
  // The highest deadline taken up.
  BootTime deadline() const { return deadline_; }
  // True once termination or kill has been given: nothing may be started any more.
  bool ending() const { return terminated_ || killed_; }
  bool stopping() const { return stop_.has_value(); }

  // Why the Task ended. A program that failed to start, or that had ended by itself before any
  // termination was given, ended for its own reasons.
  capstan::type::v1::TaskEnd Classify(const ProgramEnd& program) const;

 private:
  struct Stop {
    capstan::type::v1::Stop::Reason reason;
    BootTime kill_time;
  };

  BootTime TerminateTime() const;

  BootTime deadline_;
  absl::Duration grace_;
  absl::optional<Stop> stop_;
  bool terminated_ = false;
  bool killed_ = false;
};

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_CORE_SHIM_DEADLINE_H_
