#include "services/node_agent/core/agent_core.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "libs/store/record.h"
#include "libs/time/proto_time.h"
#include "libs/trace/context.h"
#include "libs/trace/span.h"
#include "services/node_agent/core/deadline.h"
#include "services/node_agent/core/keys.h"
#include "services/node_agent/core/task_spans.h"

namespace capstan::node_agent {

using capstan::type::v1::DesiredTask;
using capstan::type::v1::TaskEnd;
using session::TaskId;
using TaskRecord = AgentCore::TaskRecord;

namespace {

constexpr int kSchema = 1;

TaskEnd Lost(const std::string& message) {
  TaskEnd end;
  end.set_cause(TaskEnd::CAUSE_LOST);
  end.set_message(message);
  return end;
}

}  // namespace

AgentCore::AgentCore(CoreConfig config)
    : config_(std::move(config)),
      ports_(config_.first_port, config_.last_port, config_.local_port_low,
             config_.local_port_high) {}

absl::StatusOr<AgentCore> AgentCore::Load(CoreConfig config,
                                          const std::vector<store::KeyValue>& records, Now now) {
  AgentCore core(std::move(config));
  for (const store::KeyValue& kv : records) {
    absl::string_view rest = kv.key;
    if (kv.key == kSelfKey) {
      CAPSTAN_RETURN_IF_ERROR(store::ParseRecord(kv, kSchema, &core.self_));
    } else if (kv.key == kConfirmedKey) {
      capstan::nodeagent::record::v1::Confirmed confirmed;
      CAPSTAN_RETURN_IF_ERROR(store::ParseRecord(kv, kSchema, &confirmed));
      if (confirmed.boot_id() == core.config_.boot_id) {
        core.confirmed_at_ = BootTime::FromNanoseconds(confirmed.confirmed_at_boottime_ns());
      }
    } else if (absl::ConsumePrefix(&rest, kOrderPrefix)) {
      CAPSTAN_ASSIGN_OR_RETURN(const TaskId id, TaskId::FromPath(rest));
      capstan::nodeagent::record::v1::Order order;
      CAPSTAN_RETURN_IF_ERROR(store::ParseRecord(kv, kSchema, &order));
      core.tasks_[id].order = std::move(*order.mutable_task());
    } else if (absl::ConsumePrefix(&rest, kTaskPrefix)) {
      CAPSTAN_ASSIGN_OR_RETURN(const TaskId id, TaskId::FromPath(rest));
      CAPSTAN_RETURN_IF_ERROR(store::ParseRecord(kv, kSchema, &core.tasks_[id].record));
    }
  }
  for (auto it = core.tasks_.begin(); it != core.tasks_.end();) {
    // An order is stored before its record or with it; alone it was cut off by a crash.
    if (it->second.record.stage() == TaskRecord::STAGE_UNSPECIFIED) {
      it = core.tasks_.erase(it);
      continue;
    }
    Entry& entry = it->second;
    entry.draft = entry.record;
    entry.told_stage = entry.record.stage();
    if (entry.record.has_stage_time()) entry.stage_time = ToTime(entry.record.stage_time());
    if (entry.record.stage() != TaskRecord::STAGE_ENDED) {
      for (const auto& [name, port] : entry.record.ports()) core.ports_.Take(it->first, port);
      for (const std::string& uuid : entry.record.gpus()) core.gpus_.Take(it->first, uuid);
    }
    core.journal_[entry.record.sequence()] = JournalEntry{JournalEntry::Kind::kTask, it->first};
    ++it;
  }
  if (core.self_.incarnation() == 0) {
    core.self_.set_incarnation(absl::ToUnixMicros(now.wall));
    core.PersistSelf();
  }
  return core;
}

std::map<std::string, std::string> AgentCore::Snapshot() const {
  std::map<std::string, std::string> records;
  records[kSelfKey] = session::SerializeDeterministic(self_);
  if (confirmed_at_.has_value()) {
    capstan::nodeagent::record::v1::Confirmed confirmed;
    confirmed.set_boot_id(config_.boot_id);
    confirmed.set_confirmed_at_boottime_ns(confirmed_at_->ToNanoseconds());
    records[kConfirmedKey] = session::SerializeDeterministic(confirmed);
  }
  for (const auto& [id, entry] : tasks_) {
    records[TaskKeyOf(id)] = session::SerializeDeterministic(entry.record);
    if (entry.record.orphan()) continue;
    capstan::nodeagent::record::v1::Order order;
    *order.mutable_task() = entry.order;
    records[OrderKey(id)] = session::SerializeDeterministic(order);
  }
  return records;
}

Step AgentCore::Apply(const Event& event, Now now) {
  step_time_ = now.wall;
  if (const auto* discovered = std::get_if<Discovered>(&event)) {
    OnDiscovered(discovered->found, now);
  } else if (const auto* up = std::get_if<UpConnected>(&event)) {
    OnUpConnected(up->session, now);
  } else if (const auto* message = std::get_if<UpMessage>(&event)) {
    if (up_.has_value() && up_->session == message->session) OnUpMessage(message->message, now);
  } else if (const auto* gone = std::get_if<UpDisconnected>(&event)) {
    if (up_.has_value() && up_->session == gone->session) up_.reset();
  } else if (const auto* answered = std::get_if<Answered>(&event)) {
    OnAnswered(*answered, now);
  } else if (const auto* shim = std::get_if<ShimReported>(&event)) {
    const auto it = tasks_.find(shim->id);
    if (discovered_ && it != tasks_.end()) OnShimStatus(shim->id, it->second, shim->status);
  } else if (const auto* observed = std::get_if<NodeObserved>(&event)) {
    OnNodeObserved(observed->observation);
  } else if (const auto* asked = std::get_if<CheckpointAsked>(&event)) {
    OnCheckpointAsked(*asked);
  } else if (const auto* shipped = std::get_if<LogsShipped>(&event)) {
    const auto it = tasks_.find(shipped->id);
    if (it != tasks_.end() && it->second.record.stage() == TaskRecord::STAGE_ENDED) {
      it->second.logs_shipped = true;
    }
  } else if (std::holds_alternative<StopAll>(event)) {
    draining_ = true;
    for (auto& [id, entry] : tasks_) entry.waiting = false;
    if (node_.has_value()) OnNodeObserved(*node_);
  } else if (up_.has_value() && up_->next_renewal <= now.boot) {
    Renew(now);
  }
  if (discovered_) AdvanceAll(now);
  // A Task that has just come may need it sooner than was planned.
  if (up_.has_value()) up_->next_renewal = std::min(up_->next_renewal, now.boot + RenewEvery());
  FlushJournal(now);
  Step step;
  persist_.MoveTo(kSelfKey, &step.puts, &step.deletes);
  step.after = std::exchange(after_, {});
  return step;
}

absl::optional<BootTime> AgentCore::NextDeadline() const {
  absl::optional<BootTime> next;
  const auto earlier = [&next](BootTime time) {
    if (!next.has_value() || time < *next) next = time;
  };
  if (up_.has_value()) earlier(up_->next_renewal);
  if (!discovered_) return next;
  for (const auto& [id, entry] : tasks_) {
    if (entry.ticket != 0) continue;
    if (entry.waiting) {
      earlier(entry.retry_at);
    } else if (const absl::optional<BootTime> kill = KillTime(entry); kill.has_value()) {
      earlier(*kill);
    }
  }
  return next;
}

absl::optional<BootTime> AgentCore::KillTime(const Entry& entry) const {
  if (entry.record.stage() != TaskRecord::STAGE_STARTING &&
      entry.record.stage() != TaskRecord::STAGE_RUNNING) {
    return absl::nullopt;
  }
  absl::optional<BootTime> fence = FenceDeadline(entry.order.launch(), confirmed_at_);
  const absl::optional<BootTime> stop = StopDeadline(entry.record);
  // What runs was confirmed before it was started: without a confirmation something is very wrong.
  if (!fence.has_value()) return BootTime::InfinitePast();
  if (entry.deadline_kept.has_value()) fence = std::min(*fence, *entry.deadline_kept);
  return stop.has_value() ? std::min(*fence, *stop) : *fence;
}

bool AgentCore::AllEnded() const {
  return std::all_of(tasks_.begin(), tasks_.end(), [](const auto& task) {
    return task.second.record.stage() == TaskRecord::STAGE_ENDED;
  });
}

bool AgentCore::AllRemoved() const {
  return std::all_of(tasks_.begin(), tasks_.end(), [](const auto& task) {
    return task.second.record.stage() == TaskRecord::STAGE_ENDED && task.second.record.removed();
  });
}

void AgentCore::OnDiscovered(const std::vector<Remains>& found, Now now) {
  (void)now;
  discovered_ = true;
  std::map<TaskId, const Remains*> by_id;
  for (const Remains& remains : found) by_id[TaskId::Of(remains.key)] = &remains;
  for (auto& [id, entry] : tasks_) {
    HoldGrantOf(id, entry);
    const auto it = by_id.find(id);
    Adopt(id, entry, it == by_id.end() ? nullptr : it->second);
  }
  for (const auto& [id, remains] : by_id) {
    if (tasks_.count(id) != 0) continue;
    Entry& entry = tasks_[id];
    entry.order.set_node(config_.node);
    entry.record.set_stage(TaskRecord::STAGE_ENDING);
    entry.record.set_boot_id(config_.boot_id);
    entry.record.set_orphan(true);
    entry.record.set_must_kill(true);
    *entry.record.mutable_end() = Lost("the Node's record of the Task is gone");
    Persist(id, entry, true);
  }
}

void AgentCore::Adopt(const TaskId& id, Entry& entry, const Remains* found) {
  const TaskRecord::Stage stage = entry.record.stage();
  if (entry.record.boot_id() != config_.boot_id) {
    if (stage < TaskRecord::STAGE_ENDING) {
      DecideEnd(id, entry, Lost("the Node was restarted"), false);
    } else if (entry.record.must_kill()) {
      entry.record.set_must_kill(false);
      Persist(id, entry, false);
    }
  } else if (stage == TaskRecord::STAGE_PREPARED && found == nullptr) {
    DecideEnd(id, entry, Lost("the Task's folder is gone"), false);
  } else if (stage == TaskRecord::STAGE_STARTING || stage == TaskRecord::STAGE_RUNNING) {
    if (found == nullptr) {
      DecideEnd(id, entry, Lost("the Task's folder and cgroup are gone"), false);
    } else if (found->status.has_end() || (found->shim_alive && found->status.shim_pid() != 0)) {
      OnShimStatus(id, entry, found->status);
    } else if (!found->shim_alive) {
      // Without a spec it was never forked, and with one it has died; either way it may not be
      // started again in this generation.
      DecideEnd(id, entry, Lost("the Task's shim died with the agent"), true);
    }
    // Otherwise the shim is just beginning: it will report.
  }
  if (entry.record.stage() == TaskRecord::STAGE_STARTING ||
      entry.record.stage() == TaskRecord::STAGE_RUNNING) {
    Serve(id, entry);
    Ship(id, entry);
    Keep(id, entry);
    GiveControl(id, entry);
  } else if (stage == TaskRecord::STAGE_ENDED) {
    Ship(id, entry);
  }
}

void AgentCore::AdvanceAll(Now now) {
  // Collect may erase the entry in hand.
  for (auto it = tasks_.begin(); it != tasks_.end();) {
    auto& [id, entry] = *it++;
    Advance(id, entry, now);
  }
}

void AgentCore::Advance(const TaskId& id, Entry& entry, Now now) {
  for (;;) {
    if (entry.ticket != 0) return;
    if (entry.waiting) {
      if (entry.retry_at > now.boot) return;
      entry.waiting = false;
    }
    const TaskRecord::Stage stage = entry.record.stage();
    switch (stage) {
      case TaskRecord::STAGE_PREPARING:
        Prepare(id, entry);
        break;
      case TaskRecord::STAGE_PREPARED:
        Start(id, entry, now);
        break;
      case TaskRecord::STAGE_STARTING:
      case TaskRecord::STAGE_RUNNING:
        Watch(id, entry, now);
        break;
      case TaskRecord::STAGE_ENDING:
        Finish(id, entry);
        break;
      default:
        // May erase the entry.
        Collect(id, entry);
        return;
    }
    if (entry.record.stage() == stage) return;
  }
}

void AgentCore::OnAnswered(const Answered& answered, Now now) {
  const auto it = tasks_.find(answered.id);
  if (it == tasks_.end() || answered.ticket == 0 || it->second.ticket != answered.ticket) return;
  Entry& entry = it->second;
  entry.ticket = 0;
  switch (entry.record.stage()) {
    case TaskRecord::STAGE_PREPARING:
      OnPrepareAnswer(it->first, entry, answered, now);
      break;
    case TaskRecord::STAGE_PREPARED:
    case TaskRecord::STAGE_STARTING:
    case TaskRecord::STAGE_RUNNING:
      OnStartAnswer(it->first, entry, answered, now);
      break;
    case TaskRecord::STAGE_ENDING:
      OnFinishAnswer(it->first, entry, answered, now);
      break;
    default:
      OnCollectAnswer(TaskId(it->first), entry, answered, now);
      break;
  }
}

void AgentCore::OnNodeObserved(capstan::type::v1::NodeObservation next) {
  using capstan::type::v1::NodeObservation;
  if (draining_ && std::find(next.limitations().begin(), next.limitations().end(),
                             NodeObservation::LIMITATION_DRAINING) == next.limitations().end()) {
    next.add_limitations(NodeObservation::LIMITATION_DRAINING);
  }
  if (node_.has_value() &&
      session::SerializeDeterministic(*node_) == session::SerializeDeterministic(next)) {
    return;
  }
  node_ = std::move(next);
  journal_.erase(node_sequence_);
  node_sequence_ = NextSequence();
  journal_[node_sequence_] = JournalEntry{JournalEntry::Kind::kNode, TaskId()};
}

void AgentCore::OnCheckpointAsked(const CheckpointAsked& asked) {
  const auto it = tasks_.find(asked.id);
  const auto refuse = [&](absl::Status why) {
    after_.push_back(RefuseCheckpoint{asked.request, std::move(why)});
  };
  if (it == tasks_.end() || (it->second.record.stage() != TaskRecord::STAGE_RUNNING &&
                             it->second.record.stage() != TaskRecord::STAGE_STARTING)) {
    return refuse(status::Error(absl::StatusCode::kFailedPrecondition, "TASK_NOT_RUNNING",
                                "the Task is not running"));
  }
  const Entry& entry = it->second;
  if (entry.record.output_directory().empty()) {
    return refuse(status::Error(absl::StatusCode::kFailedPrecondition, "NO_OUTPUT",
                                "the Job keeps no Output"));
  }
  if (asked.step < 0) {
    return refuse(status::Error(absl::StatusCode::kInvalidArgument, "BAD_STEP",
                                "step: expected a number from 0"));
  }
  absl::StatusOr<std::string> directory =
      CheckpointDirectory(entry.record.output_directory(), asked.directory);
  if (!directory.ok()) return refuse(directory.status());
  after_.push_back(CommitCheckpoint{asked.id, asked.request, entry.order.launch().output(),
                                    entry.order.rendezvous().rank(), asked.step,
                                    *std::move(directory)});
}

absl::optional<capstan::type::v1::Stop> AgentCore::StopOf(const Entry& entry) const {
  if (entry.order.phase() == DesiredTask::PHASE_STOP) return entry.order.stop();
  capstan::type::v1::Stop stop;
  *stop.mutable_grace() = entry.order.launch().stop_grace();
  if (entry.record.forgotten()) {
    stop.set_reason(capstan::type::v1::Stop::REASON_GANG_FAILED);
    return stop;
  }
  if (draining_) {
    stop.set_reason(capstan::type::v1::Stop::REASON_SHUTDOWN);
    return stop;
  }
  return absl::nullopt;
}

Ticket AgentCore::NewTicket(Entry& entry) { return entry.ticket = ++last_ticket_; }

void AgentCore::BackOff(Entry& entry, Now now) {
  const absl::Duration delay = std::min(
      absl::Milliseconds(250) * (int64_t{1} << std::min(entry.attempts, 7)), absl::Seconds(30));
  ++entry.attempts;
  entry.waiting = true;
  // The Tasks of a gang must not all come back at once: spread by their tickets.
  entry.retry_at = now.boot + delay + delay * static_cast<int64_t>(last_ticket_ % 16) / 32;
}

void AgentCore::Persist(const TaskId& id, Entry& entry, bool changed) {
  if (changed) {
    journal_.erase(entry.record.sequence());
    entry.record.set_sequence(NextSequence());
    journal_[entry.record.sequence()] = JournalEntry{JournalEntry::Kind::kTask, id};
  }
  TellStage(id, entry);
  persist_.Put(TaskKeyOf(id), entry.record);
}

void AgentCore::TellStage(const TaskId& id, Entry& entry) {
  const auto order = trace::Parse(entry.order.launch().traceparent());
  if (!order.has_value() || !order->sampled) return;
  const TaskRecord::Stage stage = entry.record.stage();
  if (stage != entry.told_stage) {
    absl::optional<trace::Span> span = StageSpan(id, entry.order, entry.told_stage);
    if (span.has_value() && entry.stage_time != absl::InfinitePast()) {
      span->begin = entry.stage_time;
      span->end = step_time_;
      const TaskEnd& end = entry.record.end();
      const bool ended = stage == TaskRecord::STAGE_ENDING || stage == TaskRecord::STAGE_ENDED;
      span->failed = ended && (end.cause() != TaskEnd::CAUSE_EXITED || end.exit_code() != 0);
      // Not the message, in which a program may say anything.
      if (span->failed) span->error = TaskEnd::Cause_Name(end.cause());
      after_.push_back(TellSpan{*std::move(span)});
    }
    entry.told_stage = stage;
    entry.stage_time = step_time_;
  }
  // Also in a record that took a draft's place.
  *entry.record.mutable_stage_time() = ToProto(entry.stage_time);
}

int64_t AgentCore::NextSequence() {
  self_.set_journal_sequence(self_.journal_sequence() + 1);
  PersistSelf();
  return self_.journal_sequence();
}

void AgentCore::PersistSelf() { persist_.Put(kSelfKey, self_); }

}  // namespace capstan::node_agent
