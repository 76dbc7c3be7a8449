// START, the watch over what runs, its end, and what is left of it.
#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "libs/mig/placed_instance.h"
#include "libs/session/lower_side.h"
#include "services/node_agent/core/agent_core.h"
#include "services/node_agent/core/deadline.h"
#include "services/node_agent/core/keys.h"

namespace capstan::node_agent {

using capstan::type::v1::DesiredTask;
using capstan::type::v1::TaskEnd;
using session::TaskId;
using TaskRecord = AgentCore::TaskRecord;

namespace {

// What docs/task_contract.md gives a Task to say that its rendezvous port is in use.
constexpr int kExitPortTaken = 98;

TaskEnd MakeEnd(TaskEnd::Cause cause, const std::string& message) {
  TaskEnd end;
  end.set_cause(cause);
  end.set_message(message);
  return end;
}

// Whether a commit that was refused so can still succeed.
bool CommitMayYetSucceed(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kDataLoss:
      return false;
    default:
      return true;
  }
}

}  // namespace

void AgentCore::Start(const TaskId& id, Entry& entry, Now now) {
  if (StopOf(entry).has_value()) {
    return DecideEnd(id, entry, MakeEnd(TaskEnd::CAUSE_STOPPED, "stopped before it was started"),
                     false);
  }
  if (entry.order.phase() != DesiredTask::PHASE_START) return;
  const capstan::type::v1::TaskLaunch& launch = entry.order.launch();
  const absl::optional<BootTime> deadline = FenceDeadline(launch, confirmed_at_);
  if (!deadline.has_value() || *deadline - FenceGrace(launch) <= now.boot) {
    // Nothing says that the scheduler still wants it: the next confirmation will.
    entry.ports_checked = false;
    return;
  }
  if (!entry.ports_checked && !entry.record.ports().empty()) {
    CheckPorts check{id, NewTicket(entry), {}};
    for (const auto& [name, port] : entry.record.ports()) check.ports.push_back(port);
    std::sort(check.ports.begin(), check.ports.end());
    after_.push_back(std::move(check));
    return;
  }
  entry.record.set_stage(TaskRecord::STAGE_STARTING);
  Persist(id, entry, false);
  entry.deadline_given = *deadline;
  Serve(id, entry);
  Ship(id, entry);
  Keep(id, entry);
  after_.push_back(StartTask{id, NewTicket(entry),
                             BuildShimSpec(id, entry.order, entry.record, config_.isolation,
                                           config_.log_limit_bytes, *deadline)});
}

void AgentCore::OnStartAnswer(const TaskId& id, Entry& entry, const Answered& answered, Now now) {
  if (entry.record.stage() == TaskRecord::STAGE_PREPARED) {
    if (!answered.status.ok()) return BackOff(entry, now);
    const auto* taken = std::get_if<TakenPorts>(&answered.answer);
    if (taken != nullptr && !taken->ports.empty()) {
      return DecideEnd(id, entry,
                       MakeEnd(TaskEnd::CAUSE_RENDEZVOUS_PORT_TAKEN,
                               absl::StrCat("port ", taken->ports.front(),
                                            " was taken between PREPARE and START")),
                       false);
    }
    entry.ports_checked = true;
    entry.attempts = 0;
    return;
  }
  // A spec that is there already is the shim's own: it will report.
  if (answered.status.ok() || absl::IsAlreadyExists(answered.status)) return;
  DecideEnd(id, entry,
            MakeEnd(TaskEnd::CAUSE_EXEC_FAILED,
                    absl::StrCat("its shim could not be started: ", answered.status.message())),
            true);
}

void AgentCore::Watch(const TaskId& id, Entry& entry, Now now) {
  TaskRecord& record = entry.record;
  if (const auto stop = StopOf(entry); stop.has_value()) {
    const BootTime kill = now.boot + session::FromProto(stop->grace());
    const absl::optional<BootTime> before = StopDeadline(record);
    if (!before.has_value()) {
      *record.mutable_stop() = *stop;
      record.set_stop_boottime_ns(now.boot.ToNanoseconds());
      Persist(id, entry, false);
      GiveControl(id, entry);
    } else if (kill < *before) {
      // A repeated stop may only bring the end forward.
      const BootTime began = BootTime::FromNanoseconds(record.stop_boottime_ns());
      *record.mutable_stop()->mutable_grace() = session::ToProto(kill - began);
      Persist(id, entry, false);
      GiveControl(id, entry);
    }
  }
  const absl::optional<BootTime> kill = KillTime(entry);
  if (!kill.has_value() || *kill > now.boot) return;
  const absl::optional<BootTime> stop_deadline = StopDeadline(record);
  if (stop_deadline.has_value() && *stop_deadline <= *kill) {
    return DecideEnd(id, entry, MakeEnd(TaskEnd::CAUSE_STOPPED, "killed at the end of its grace"),
                     true);
  }
  after_.push_back(Alarm{"DEADLINE_ENFORCED", id.Path()});
  const absl::optional<BootTime> fence = FenceDeadline(entry.order.launch(), confirmed_at_);
  DecideEnd(id, entry,
            MakeEnd(TaskEnd::CAUSE_FENCED,
                    fence.has_value() && *fence > now.boot
                        ? "its shim did not take up a later deadline: it hangs or is stopped"
                        : "no confirmation by the scheduler within fence_after"),
            true);
}

void AgentCore::GiveControl(const TaskId& id, Entry& entry) {
  const absl::optional<BootTime> deadline = FenceDeadline(entry.order.launch(), confirmed_at_);
  if (deadline.has_value()) entry.deadline_given = std::max(entry.deadline_given, *deadline);
  ControlTask control{id, {}};
  control.control.set_deadline_boottime_ns(
      entry.deadline_given == BootTime::InfinitePast() ? 0 : entry.deadline_given.ToNanoseconds());
  if (entry.record.has_stop()) {
    *control.control.mutable_stop() = entry.record.stop();
    control.control.set_stop_boottime_ns(entry.record.stop_boottime_ns());
  }
  after_.push_back(std::move(control));
}

void AgentCore::OnShimStatus(const TaskId& id, Entry& entry,
                             const capstan::nodeagent::v1::ShimStatus& status) {
  TaskRecord& record = entry.record;
  if (record.stage() != TaskRecord::STAGE_STARTING && record.stage() != TaskRecord::STAGE_RUNNING) {
    return;
  }
  if (status.deadline_boottime_ns() != 0) {
    entry.deadline_kept = BootTime::FromNanoseconds(status.deadline_boottime_ns());
  }
  if (status.shim_pid() != 0 &&
      (record.stage() == TaskRecord::STAGE_STARTING || record.shim_pid() != status.shim_pid() ||
       record.task_pid() != status.task_pid())) {
    record.set_stage(TaskRecord::STAGE_RUNNING);
    record.set_shim_pid(status.shim_pid());
    record.set_shim_start_ticks(status.shim_start_ticks());
    record.set_task_pid(status.task_pid());
    Persist(id, entry, true);
  }
  if (status.has_end()) return DecideEnd(id, entry, status.end(), false);
  if (status.shim_pid() == 0) {
    DecideEnd(id, entry, MakeEnd(TaskEnd::CAUSE_LOST, "the Task's shim died"), true);
  }
}

void AgentCore::DecideEnd(const TaskId& id, Entry& entry, TaskEnd end, bool must_kill) {
  if (entry.record.stage() == TaskRecord::STAGE_PREPARING) {
    // What was made so far is to be removed in the end.
    const int64_t sequence = entry.record.sequence();
    const bool forgotten = entry.record.forgotten();
    entry.record = entry.draft;
    entry.record.set_sequence(sequence);
    entry.record.set_forgotten(forgotten);
  }
  bool must_commit = false;
  if (end.cause() == TaskEnd::CAUSE_EXITED) {
    if (end.exit_code() == kExitPortTaken) {
      end.set_cause(TaskEnd::CAUSE_RENDEZVOUS_PORT_TAKEN);
    } else if (end.exit_code() == 0) {
      must_commit = !entry.record.output_directory().empty();
    }
  }
  entry.ticket = 0;
  entry.attempts = 0;
  entry.waiting = false;
  if (!entry.record.svid_directory().empty()) after_.push_back(DropIdentity{id});
  *entry.record.mutable_end() = std::move(end);
  entry.record.set_must_kill(must_kill);
  entry.record.set_must_commit(must_commit);
  // As soon as the end is told others may be given its place on the GPU.
  const bool must_remove = entry.order.launch().has_mig_instance();
  entry.record.set_must_remove_instance(must_remove);
  if (!must_kill && !must_commit && !must_remove) return SetEnded(id, entry);
  entry.record.set_stage(TaskRecord::STAGE_ENDING);
  Persist(id, entry, false);
}

void AgentCore::SetEnded(const TaskId& id, Entry& entry) {
  entry.record.set_stage(TaskRecord::STAGE_ENDED);
  entry.record.set_must_kill(false);
  entry.record.set_must_commit(false);
  entry.record.set_must_remove_instance(false);
  entry.record.clear_progress();
  entry.ticket = 0;
  entry.attempts = 0;
  entry.waiting = false;
  ports_.Release(id);
  gpus_.Release(id);
  Persist(id, entry, true);
  if (!entry.record.folder().empty()) after_.push_back(CloseSocket{id});
  Ship(id, entry);
}

void AgentCore::Finish(const TaskId& id, Entry& entry) {
  TaskRecord& record = entry.record;
  if (record.must_kill()) {
    // What has no record of ours may still be named: nothing is done to it before that is known.
    if (record.orphan() && !synced_ && !draining_) return;
    after_.push_back(KillTask{id, NewTicket(entry)});
    return;
  }
  if (!record.must_commit()) {
    if (!record.must_remove_instance() || AnotherHasItsInstance(id, entry)) {
      return SetEnded(id, entry);
    }
    after_.push_back(RemoveMigInstance{id, NewTicket(entry), entry.order.launch().mig_instance()});
    return;
  }
  if (StopOf(entry).has_value()) {
    // Nobody waits for the Output of a gang that is being stopped.
    *record.mutable_end() =
        MakeEnd(TaskEnd::CAUSE_STOPPED, "stopped before its Output was committed");
    record.set_must_commit(false);
    return Finish(id, entry);
  }
  after_.push_back(CommitFinal{id, NewTicket(entry), entry.order.launch().output(),
                               entry.order.rendezvous().rank(), record.output_directory()});
}

bool AgentCore::AnotherHasItsInstance(const TaskId& id, const Entry& entry) const {
  const auto& instance = entry.order.launch().mig_instance();
  return std::any_of(tasks_.begin(), tasks_.end(), [&](const auto& task) {
    const auto& [other, theirs] = task;
    return other != id && !theirs.record.mig_device().empty() &&
           theirs.record.stage() != TaskRecord::STAGE_ENDED &&
           mig::IsSameInstance(theirs.order.launch().mig_instance(), instance);
  });
}

void AgentCore::OnFinishAnswer(const TaskId& id, Entry& entry, const Answered& answered, Now now) {
  TaskRecord& record = entry.record;
  if (record.must_kill()) {
    if (!answered.status.ok()) {
      after_.push_back(
          Alarm{"KILL_FAILED", absl::StrCat(id.Path(), ": ", answered.status.message())});
      return BackOff(entry, now);
    }
    record.set_must_kill(false);
    entry.attempts = 0;
    Persist(id, entry, false);
    return;
  }
  if (!record.must_commit()) {
    // Its place is not free before.
    if (!answered.status.ok()) return BackOff(entry, now);
    return SetEnded(id, entry);
  }
  if (!answered.status.ok()) {
    if (CommitMayYetSucceed(answered.status)) return BackOff(entry, now);
    *record.mutable_end() =
        MakeEnd(TaskEnd::CAUSE_OUTPUT_FAILED,
                absl::StrCat("its Output could not be committed: ", answered.status.message()));
  }
  record.set_must_commit(false);
  entry.attempts = 0;
  if (!record.must_remove_instance()) return SetEnded(id, entry);
  Persist(id, entry, false);
}

void AgentCore::Collect(const TaskId& id, Entry& entry) {
  TaskRecord& record = entry.record;
  if (!record.forgotten() && !draining_) return;
  if (!record.removed()) {
    // Its folder holds log that nobody else has yet.
    if (!record.folder().empty() && !entry.logs_shipped) return;
    after_.push_back(RemovePlace{id, NewTicket(entry), record.output_directory()});
    return;
  }
  if (!record.forgotten()) return;
  // The checkpoint that an Output begins with is held too.
  const auto& launch = entry.order.launch();
  const bool holds =
      !launch.bundle().empty() || launch.datasets_size() > 0 || !launch.output().empty();
  const auto at = tasks_.find(id);
  const auto is_beside = [&id](const auto& task) {
    return task.first.job_uid == id.job_uid && task.first.generation == id.generation;
  };
  const bool last = (at == tasks_.begin() || !is_beside(*std::prev(at))) &&
                    (std::next(at) == tasks_.end() || !is_beside(*std::next(at)));
  if (holds && last) {
    after_.push_back(
        ReleasePins{id, NewTicket(entry), absl::StrCat(id.job_uid, "/", id.generation)});
    return;
  }
  Erase(TaskId(id));
}

void AgentCore::OnCollectAnswer(const TaskId& id, Entry& entry, const Answered& answered, Now now) {
  if (!entry.record.removed()) {
    if (!answered.status.ok()) return BackOff(entry, now);
    entry.record.set_removed(true);
    entry.attempts = 0;
    Persist(id, entry, false);
    return;
  }
  if (!answered.status.ok() && CommitMayYetSucceed(answered.status)) return BackOff(entry, now);
  Erase(id);
}

void AgentCore::Erase(const TaskId& id) {
  const auto it = tasks_.find(id);
  journal_.erase(it->second.record.sequence());
  persist_.Delete(OrderKey(id));
  persist_.Delete(TaskKeyOf(id));
  persist_.Delete(CursorKey(id));
  tasks_.erase(it);
  journal_[NextSequence()] = JournalEntry{JournalEntry::Kind::kGone, id};
}

void AgentCore::Serve(const TaskId& id, const Entry& entry) {
  after_.push_back(
      ServeSocket{id, entry.record.folder(), entry.record.unix_uid(), entry.record.cgroup()});
}

void AgentCore::Keep(const TaskId& id, const Entry& entry) {
  const TaskRecord& record = entry.record;
  if (record.svid_directory().empty()) return;
  const capstan::type::v1::TaskLaunch& launch = entry.order.launch();
  after_.push_back(KeepIdentity{record.svid_directory(),
                                IssueIdentity{id, 0, record.folder(), record.unix_uid(),
                                              launch.job(), launch.service_account()},
                                record.cgroup()});
}

void AgentCore::Ship(const TaskId& id, const Entry& entry) {
  if (entry.record.folder().empty() || entry.record.removed()) return;
  after_.push_back(ShipLogs{
      id, entry.order.launch().job(), entry.record.folder(), entry.order.rendezvous().rank(),
      entry.record.stage() == TaskRecord::STAGE_ENDED, entry.record.cgroup()});
}

}  // namespace capstan::node_agent
