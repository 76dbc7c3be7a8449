#include "services/node_agent/core/shim_deadline.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "libs/time/proto_time.h"

namespace capstan::node_agent {
namespace {

using capstan::nodeagent::v1::ShimControl;
using capstan::nodeagent::v1::ShimSpec;
using capstan::type::v1::TaskEnd;

absl::Duration NotNegative(absl::Duration d) { return std::max(d, absl::ZeroDuration()); }

TaskEnd MakeEnd(TaskEnd::Cause cause, std::string message) {
  TaskEnd end;
  end.set_cause(cause);
  end.set_message(std::move(message));
  return end;
}

std::string StopSentence(capstan::type::v1::Stop::Reason reason) {
  switch (reason) {
    case capstan::type::v1::Stop::REASON_CANCELLED:
      return "The Job was cancelled.";
    case capstan::type::v1::Stop::REASON_GANG_FAILED:
      return "Another Task of the gang ended or was lost.";
    case capstan::type::v1::Stop::REASON_PREPARE_FAILED:
      return "The gang could not be prepared.";
    case capstan::type::v1::Stop::REASON_SHUTDOWN:
      return "The platform is being shut down.";
    case capstan::type::v1::Stop::REASON_DRAINED:
      return "The Node is being drained.";
    case capstan::type::v1::Stop::REASON_PREEMPTED:
      return "A Job of higher standing needs the room.";
    case capstan::type::v1::Stop::REASON_TIME_LIMIT:
      return "The Job has run for its time limit.";
    case capstan::type::v1::Stop::REASON_SHRUNK:
      return "A Job of higher standing needs a part of the room; the Job starts again with fewer "
             "Tasks.";
    case capstan::type::v1::Stop::REASON_GROWN:
      return "There is spare room; the Job starts again with more Tasks.";
    case capstan::type::v1::Stop::REASON_MAINTENANCE:
      return "A maintenance window of a Node of the gang has begun.";
    default:
      return "The Task was stopped.";
  }
}

}  // namespace

ShimDeadline::ShimDeadline(BootTime deadline, absl::Duration grace)
    : deadline_(deadline), grace_(NotNegative(grace)) {}

ShimDeadline::ShimDeadline(const ShimSpec& spec)
    : ShimDeadline(BootTime::FromNanoseconds(spec.deadline_boottime_ns()),
                   ToDuration(spec.stop_grace())) {}

ShimActions ShimDeadline::OnControl(const ShimControl& control, BootTime now) {
  // Time that passed before the control was seen counts first: a raise that comes too late is late.
  ShimActions actions = OnTick(now);
  if (!ending()) {
    deadline_ = std::max(deadline_, BootTime::FromNanoseconds(control.deadline_boottime_ns()));
  }
  if (control.has_stop()) {
    // A stop from the future would be an endless grace.
    const BootTime asked = std::min(now, BootTime::FromNanoseconds(control.stop_boottime_ns()));
    const BootTime kill_time = asked + NotNegative(ToDuration(control.stop().grace()));
    if (!stop_.has_value()) {
      stop_ = Stop{control.stop().reason(), kill_time};
    } else {
      stop_->kill_time = std::min(stop_->kill_time, kill_time);
    }
  }
  const ShimActions more = OnTick(now);
  actions.terminate |= more.terminate;
  actions.kill |= more.kill;
  return actions;
}

ShimActions ShimDeadline::OnTick(BootTime now) {
  ShimActions actions;
  if (!terminated_ && (stop_.has_value() || now >= TerminateTime())) {
    terminated_ = true;
    actions.terminate = true;
  }
  if (!killed_ && now >= KillTime()) {
    killed_ = true;
    actions.kill = true;
  }
  return actions;
}

absl::optional<BootTime> ShimDeadline::NextTick() const {
  if (killed_) return absl::nullopt;
  return terminated_ ? KillTime() : TerminateTime();
}

BootTime ShimDeadline::KillTime() const {
  return stop_.has_value() ? std::min(deadline_, stop_->kill_time) : deadline_;
}

BootTime ShimDeadline::TerminateTime() const { return deadline_ - grace_; }

TaskEnd ShimDeadline::Classify(const ProgramEnd& program) const {
  if (program.exec_failed) return MakeEnd(TaskEnd::CAUSE_EXEC_FAILED, program.message);
  if (stop_.has_value()) return MakeEnd(TaskEnd::CAUSE_STOPPED, StopSentence(stop_->reason));
  if (ending() || program.killed_by_agent) {
    return MakeEnd(TaskEnd::CAUSE_FENCED,
                   "The scheduler was not heard within the Job's fence_after.");
  }
  const bool failed = program.signaled || program.code != 0;
  if (failed && program.out_of_memory_kills > 0) {
    return MakeEnd(TaskEnd::CAUSE_OUT_OF_MEMORY, "The Task passed its memory limit.");
  }
  TaskEnd end;
  if (program.signaled) {
    end = MakeEnd(TaskEnd::CAUSE_SIGNALED, absl::StrCat("Ended by signal ", program.code, "."));
    end.set_signal(program.code);
  } else {
    end = MakeEnd(TaskEnd::CAUSE_EXITED, absl::StrCat("Exited with code ", program.code, "."));
    end.set_exit_code(program.code);
  }
  return end;
}

}  // namespace capstan::node_agent
