#include "services/scheduler/core/retry.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "libs/time/proto_time.h"

namespace capstan::scheduler {
namespace {

using capstan::type::v1::TaskEnd;

// `initial` doubled `times` times, bounded.
absl::Duration Doubled(absl::Duration initial, int times, absl::Duration bound) {
  absl::Duration wait = initial;
  for (int i = 0; i < times && wait < bound; ++i) wait *= 2;
  return std::min(wait, bound);
}

bool PortTaken(const TaskEnd& end) {
  return end.cause() == TaskEnd::CAUSE_RENDEZVOUS_PORT_TAKEN ||
         (end.cause() == TaskEnd::CAUSE_EXITED && end.exit_code() == kExitPortTaken);
}

bool NodeLost(const TaskEnd& end) {
  return end.cause() == TaskEnd::CAUSE_LOST || end.cause() == TaskEnd::CAUSE_NODE_GIVEN_UP ||
         end.cause() == TaskEnd::CAUSE_FENCED;
}

}  // namespace

RetryDecision DecideRetry(const JobEntry& job) {
  const Gang& gang = *job.gang;
  const capstan::scheduler::v1::RetryPolicy& policy = job.spec.spec().retry();
  const absl::Duration initial = ToDuration(policy.initial_back_off());
  const absl::Duration bound = ToDuration(policy.max_back_off());

  RetryDecision decision;
  bool lost = false;
  bool port_taken = false;
  for (const rec::TaskRecord& task : gang.tasks) {
    lost = lost || NodeLost(task.end());
    port_taken = port_taken || PortTaken(task.end());
  }
  if (lost) {
    decision.reason = "NODE_LOST";
  } else if (port_taken && job.state.uncounted_streak() < kMaxPortStreak) {
    decision.reason = "PORT_TAKEN";
  } else if (gang.head.failure().end().cause() == TaskEnd::CAUSE_STOPPED) {
    decision.reason = "SHUTDOWN";
  } else {
    decision.counted = true;
    decision.reason = gang.head.stop_reason() == capstan::type::v1::Stop::REASON_PREPARE_FAILED ||
                              gang.head.failure().end().cause() == TaskEnd::CAUSE_PREPARE_FAILED
                          ? "PREPARE_FAILED"
                          : "TASK_FAILED";
    decision.again = job.state.counted_restarts() < policy.max_restarts();
    decision.back_off = Doubled(initial, job.state.counted_restarts(), bound);
    return decision;
  }
  decision.again = true;
  const int streak = job.state.uncounted_streak();
  decision.back_off = streak == 0 ? absl::ZeroDuration() : Doubled(initial, streak - 1, bound);
  return decision;
}

bool ReturnsAtOnce(const JobEntry& job) {
  if (!job.live() || job.state.cancel_requested() ||
      job.gang->head.phase() != rec::GangHeadRecord::PHASE_STOPPING ||
      job.gang->head.stop_reason() != capstan::type::v1::Stop::REASON_GANG_FAILED) {
    return false;
  }
  const RetryDecision decision = DecideRetry(job);
  return decision.again && decision.back_off <= absl::ZeroDuration();
}

std::string EndInWords(const TaskEnd& end) {
  std::string words;
  switch (end.cause()) {
    case TaskEnd::CAUSE_EXITED:
      words = absl::StrCat("exited with code ", end.exit_code());
      break;
    case TaskEnd::CAUSE_SIGNALED:
      words = absl::StrCat("was ended by signal ", end.signal());
      break;
    case TaskEnd::CAUSE_STOPPED:
      words = "was stopped";
      break;
    case TaskEnd::CAUSE_FENCED:
      words = "ended itself, not having been confirmed within fence_after";
      break;
    case TaskEnd::CAUSE_PREPARE_FAILED:
      words = "could not be prepared";
      break;
    case TaskEnd::CAUSE_RENDEZVOUS_PORT_TAKEN:
      words = "found its rendezvous port taken";
      break;
    case TaskEnd::CAUSE_LOST:
      words = "was lost with its Node's state";
      break;
    case TaskEnd::CAUSE_OUT_OF_MEMORY:
      words = "ran out of memory";
      break;
    case TaskEnd::CAUSE_EXEC_FAILED:
      words = "could not be executed";
      break;
    case TaskEnd::CAUSE_OUTPUT_FAILED:
      words = "could not commit its output";
      break;
    case TaskEnd::CAUSE_NODE_GIVEN_UP:
      words = "was given up with its silent Node";
      break;
    default:
      words = "ended for an unknown cause";
      break;
  }
  if (!end.message().empty()) absl::StrAppend(&words, ": ", end.message());
  return words;
}

}  // namespace capstan::scheduler
