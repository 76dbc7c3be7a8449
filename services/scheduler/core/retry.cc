#include "services/scheduler/core/retry.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libs/time/proto_time.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::RetryPolicy;
using capstan::scheduler::v1::RetryRule;
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

std::string SignatureOf(const TaskEnd& end) {
  const absl::string_view cause =
      absl::StripPrefix(TaskEnd::Cause_Name(end.cause()), absl::string_view("CAUSE_"));
  if (end.cause() == TaskEnd::CAUSE_EXITED) return absl::StrCat(cause, " ", end.exit_code());
  if (end.cause() == TaskEnd::CAUSE_SIGNALED) return absl::StrCat(cause, " ", end.signal());
  return std::string(cause);
}

template <typename List, typename T>
bool Holds(const List& list, const T& value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

bool Fits(const RetryRule& rule, const TaskEnd& end) {
  return Holds(rule.causes(), static_cast<int>(end.cause())) ||
         (end.cause() == TaskEnd::CAUSE_EXITED && Holds(rule.exit_codes(), end.exit_code())) ||
         (end.cause() == TaskEnd::CAUSE_SIGNALED && Holds(rule.signals(), end.signal()));
}

// The end that the program, or what was asked for, is blamed for.
RetryDecision DecideByRules(const JobEntry& job) {
  const rec::GangHeadRecord& head = job.gang->head;
  const RetryPolicy& policy = job.spec.spec().retry();
  TaskEnd end = head.failure().end();
  // What is not prepared in time has no end that says so.
  if (head.stop_reason() == capstan::type::v1::Stop::REASON_PREPARE_FAILED) {
    end.set_cause(TaskEnd::CAUSE_PREPARE_FAILED);
  }
  RetryDecision decision;
  decision.signature = SignatureOf(end);
  decision.reason = end.cause() == TaskEnd::CAUSE_PREPARE_FAILED ? "PREPARE_FAILED" : "TASK_FAILED";
  const int streak =
      job.state.failure_signature() == decision.signature ? job.state.signature_streak() : 0;
  decision.back_off =
      Doubled(ToDuration(policy.initial_back_off()), streak, ToDuration(policy.max_back_off()));
  const auto rule =
      std::find_if(policy.rules().begin(), policy.rules().end(),
                   [&end](const RetryRule& candidate) { return Fits(candidate, end); });
  if (rule != policy.rules().end() && rule->action() == RetryRule::ACTION_FAIL) {
    decision.reason = "RETRY_RULE";
    return decision;
  }
  if (rule != policy.rules().end()) decision.avoid_node_for = ToDuration(rule->avoid_node_for());
  decision.counted =
      rule == policy.rules().end() || rule->action() != RetryRule::ACTION_RESTART_UNCOUNTED;
  decision.again = !decision.counted || job.state.counted_restarts() < policy.max_restarts();
  return decision;
}

}  // namespace

RetryDecision DecideRetry(const JobEntry& job) {
  const Gang& gang = *job.gang;
  const RetryPolicy& policy = job.spec.spec().retry();
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
    return DecideByRules(job);
  }
  decision.again = true;
  const int streak = job.state.uncounted_streak();
  decision.back_off = streak == 0 ? absl::ZeroDuration() : Doubled(initial, streak - 1, bound);
  return decision;
}

bool ReturnsAtOnce(const JobEntry& job) {
  if (!job.live() || job.state.cancel_requested() || job.state.hold() ||
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
