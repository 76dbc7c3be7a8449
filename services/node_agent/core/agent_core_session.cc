// The session to the executor.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "libs/session/fencing_token.h"
#include "libs/session/placement.h"
#include "libs/status/error.h"
#include "services/node_agent/core/agent_core.h"
#include "services/node_agent/core/deadline.h"
#include "services/node_agent/core/keys.h"

namespace capstan::node_agent {

using capstan::type::v1::DesiredTask;
using capstan::type::v1::SessionDown;
using capstan::type::v1::SessionUp;
using capstan::type::v1::TaskEnd;
using capstan::type::v1::TaskObservation;
using session::TaskId;
using TaskRecord = AgentCore::TaskRecord;

TaskObservation AgentCore::Observe(const TaskId& id, const Entry& entry, Now now) const {
  const TaskRecord& record = entry.record;
  TaskObservation task;
  *task.mutable_key() = id.ToProto();
  task.set_node(config_.node);
  task.set_unix_uid(record.unix_uid());
  task.mutable_observe_time()->set_seconds(absl::ToUnixSeconds(now.wall));
  switch (record.stage()) {
    case TaskRecord::STAGE_PREPARING:
      task.set_state(TaskObservation::STATE_PREPARING);
      task.set_progress(record.progress());
      break;
    case TaskRecord::STAGE_PREPARED:
    // Not yet seen to run.
    case TaskRecord::STAGE_STARTING:
      task.set_state(TaskObservation::STATE_PREPARED);
      break;
    case TaskRecord::STAGE_ENDED:
      task.set_state(TaskObservation::STATE_ENDED);
      *task.mutable_end() = record.end();
      break;
    default:
      task.set_state(TaskObservation::STATE_RUNNING);
      task.set_pid(record.task_pid());
      break;
  }
  if (record.stage() != TaskRecord::STAGE_PREPARING && !record.ports().empty()) {
    *task.mutable_ports() = record.ports();
  }
  task.set_host(config_.host);
  return task;
}

void AgentCore::OnUpConnected(SessionId session, Now now) {
  up_.emplace();
  up_->session = session;
  SessionUp hello;
  hello.mutable_hello()->set_cluster(config_.cluster);
  hello.mutable_hello()->set_node(config_.node);
  hello.mutable_hello()->set_incarnation(self_.incarnation());
  hello.mutable_hello()->set_boot_id(config_.boot_id);
  hello.mutable_hello()->set_desired_revision(self_.desired_revision());
  *hello.mutable_hello()->mutable_highest_token() = self_.highest_token();
  after_.push_back(SendUp{session, std::move(hello)});

  std::map<int64_t, const std::pair<const TaskId, Entry>*> by_sequence;
  for (const auto& task : tasks_) by_sequence[task.second.record.sequence()] = &task;
  session::ReportBuilder report;
  for (const auto& [sequence, task] : by_sequence) {
    report.Add(Observe(task->first, task->second, now), sequence);
  }
  // Last, with the newest sequence: the Node's own sequence may lie between.
  if (node_.has_value()) report.Add(*node_, self_.journal_sequence());
  for (SessionUp& message : report.Build(true, self_.journal_sequence())) {
    after_.push_back(SendUp{session, std::move(message)});
  }
  up_->sent_sequence = self_.journal_sequence();
  Renew(now);
}

absl::Duration AgentCore::RenewEvery() const {
  absl::Duration shortest = absl::InfiniteDuration();
  for (const auto& [id, entry] : tasks_) {
    if (entry.record.stage() != TaskRecord::STAGE_ENDED) {
      shortest = std::min(shortest, FenceAfter(entry.order.launch()));
    }
  }
  return session::RenewInterval(shortest);
}

void AgentCore::Renew(Now now) {
  SessionUp message;
  *message.mutable_renewal() = up_->renewals.Send(now.boot);
  after_.push_back(SendUp{up_->session, std::move(message)});
  up_->next_renewal = now.boot + RenewEvery();
}

void AgentCore::FlushJournal(Now now) {
  if (!up_.has_value() || up_->sent_sequence == self_.journal_sequence()) return;
  session::ReportBuilder report;
  for (auto it = journal_.upper_bound(up_->sent_sequence); it != journal_.end(); ++it) {
    switch (it->second.kind) {
      case JournalEntry::Kind::kTask:
        report.Add(Observe(it->second.id, tasks_.at(it->second.id), now), it->first);
        break;
      case JournalEntry::Kind::kGone:
        report.AddGone(it->second.id.ToProto(), it->first);
        break;
      case JournalEntry::Kind::kNode:
        report.Add(*node_, it->first);
        break;
    }
  }
  for (SessionUp& message : report.Build(false, 0)) {
    after_.push_back(SendUp{up_->session, std::move(message)});
  }
  up_->sent_sequence = self_.journal_sequence();
}

void AgentCore::OnUpMessage(const SessionDown& message, Now now) {
  (void)now;
  switch (message.message_case()) {
    case SessionDown::kDesired:
      OnDesired(message.desired());
      break;
    case SessionDown::kRenewalAnswer:
      OnRenewalAnswer(message.renewal_answer());
      break;
    case SessionDown::kObservationsAck:
      journal_.erase(journal_.begin(),
                     journal_.upper_bound(message.observations_ack().journal_sequence()));
      break;
    case SessionDown::MESSAGE_NOT_SET:
      break;
  }
}

bool AgentCore::AcceptToken(const capstan::type::v1::FencingToken& token) {
  const auto order = session::CompareTokens(token, self_.highest_token());
  if (order < 0) {
    const std::string text =
        absl::StrCat("token ", session::TokenText(token), " is below ",
                     session::TokenText(self_.highest_token()), ", which was seen before");
    after_.push_back(Alarm{"LOWER_TOKEN", text});
    after_.push_back(CloseUp{
        up_->session, status::Error(absl::StatusCode::kFailedPrecondition, "LOWER_TOKEN", text)});
    up_.reset();
    return false;
  }
  if (order > 0) {
    *self_.mutable_highest_token() = token;
    PersistSelf();
  }
  return true;
}

void AgentCore::OnRenewalAnswer(const capstan::type::v1::RenewalAnswer& answer) {
  if (!AcceptToken(answer.token())) return;
  const absl::optional<BootTime> confirmed = up_->renewals.Answered(answer);
  if (!confirmed.has_value() || (confirmed_at_.has_value() && *confirmed <= *confirmed_at_)) return;
  confirmed_at_ = confirmed;
  capstan::nodeagent::record::v1::Confirmed record;
  record.set_boot_id(config_.boot_id);
  record.set_confirmed_at_boottime_ns(confirmed_at_->ToNanoseconds());
  persist_.Put(kConfirmedKey, record);
  for (auto& [id, entry] : tasks_) {
    if (entry.record.stage() == TaskRecord::STAGE_STARTING ||
        entry.record.stage() == TaskRecord::STAGE_RUNNING) {
      GiveControl(id, entry);
    }
  }
}

void AgentCore::OnDesired(const capstan::type::v1::DesiredTasks& desired) {
  if (!AcceptToken(desired.token())) return;
  if (desired.snapshot() && !up_->collecting) {
    up_->collecting = true;
    up_->named.clear();
  }
  for (const DesiredTask& order : desired.tasks()) {
    const absl::Status valid = session::CheckTaskKey(order.key());
    if (!valid.ok() || order.node() != config_.node) {
      after_.push_back(
          Alarm{"BAD_TASK", absl::StrCat("order for Node `", order.node(), "` ", valid.message())});
      continue;
    }
    const TaskId id = TaskId::Of(order.key());
    if (up_->collecting) up_->named.insert(id);
    if (tasks_.count(id) != 0) {
      OnOrder(id, order);
    } else {
      OnNewOrder(id, order);
    }
  }
  for (const capstan::type::v1::TaskKey& key : desired.forgotten()) OnForgotten(TaskId::Of(key));
  if (self_.desired_revision() != desired.revision()) {
    self_.set_desired_revision(desired.revision());
    PersistSelf();
  }
  if (desired.snapshot() && desired.sync_complete()) {
    up_->collecting = false;
    OnSyncComplete(std::exchange(up_->named, {}));
  }
}

void AgentCore::OnOrder(const TaskId& id, const DesiredTask& order) {
  Entry& entry = tasks_.at(id);
  // Phases only rise, and the launch is that of PREPARE: what runs cannot be changed.
  if (entry.record.orphan() || order.phase() < entry.order.phase()) return;
  DesiredTask next = entry.order;
  next.set_phase(order.phase());
  if (order.has_rendezvous()) *next.mutable_rendezvous() = order.rendezvous();
  if (order.has_stop()) *next.mutable_stop() = order.stop();
  // Says who ordered it, not what runs: what follows START hangs on START.
  if (order.phase() == DesiredTask::PHASE_START && !order.launch().traceparent().empty()) {
    next.mutable_launch()->set_traceparent(order.launch().traceparent());
  }
  if (order.has_grant()) *next.mutable_grant() = order.grant();
  session::KeepGrant(entry.order, &next);
  if (session::SerializeDeterministic(next) == session::SerializeDeterministic(entry.order)) return;
  entry.order = std::move(next);
  entry.waiting = false;
  HoldGrantOf(id, entry);
  capstan::nodeagent::record::v1::Order record;
  *record.mutable_task() = entry.order;
  persist_.Put(OrderKey(id), record);
}

void AgentCore::OnNewOrder(const TaskId& id, const DesiredTask& order) {
  Entry& entry = tasks_[id];
  entry.order = order;
  capstan::nodeagent::record::v1::Order record;
  *record.mutable_task() = order;
  persist_.Put(OrderKey(id), record);
  HoldGrantOf(id, entry);
  entry.record.set_stage(TaskRecord::STAGE_PREPARING);
  entry.record.set_boot_id(config_.boot_id);
  entry.record.set_unix_uid(order.unix_uid());
  TaskEnd end;
  if (order.phase() != DesiredTask::PHASE_PREPARE) {
    // PREPARE was not carried out here in this generation, or the record of it is lost: the Task
    // may have run. It must not be started.
    const bool stop = order.phase() == DesiredTask::PHASE_STOP;
    end.set_cause(stop ? TaskEnd::CAUSE_STOPPED : TaskEnd::CAUSE_LOST);
    end.set_message(stop ? "stopped before the Node knew it" : "the Node has no record of it");
  } else if (!PickPorts(id, order.launch(), entry.record)) {
    end.set_cause(TaskEnd::CAUSE_PREPARE_FAILED);
    end.set_message("the Node has no free port left in the agent's range");
  }
  entry.draft = entry.record;
  if (end.cause() != TaskEnd::CAUSE_UNSPECIFIED) {
    DecideEnd(id, entry, std::move(end), false);
  } else {
    Persist(id, entry, true);
  }
}

void AgentCore::HoldGrantOf(const TaskId& id, const Entry& entry) {
  if (!entry.order.has_grant() || entry.record.removed()) return;
  after_.push_back(
      HoldGrant{id, entry.order.launch().job(), entry.order.grant().SerializeAsString()});
}

void AgentCore::OnForgotten(const TaskId& id) {
  const auto it = tasks_.find(id);
  if (it == tasks_.end()) {
    // Nothing of it is here: say so, the executor waits for it.
    journal_[NextSequence()] = JournalEntry{JournalEntry::Kind::kGone, id};
    return;
  }
  if (it->second.record.forgotten()) return;
  it->second.record.set_forgotten(true);
  it->second.waiting = false;
  it->second.draft.set_forgotten(true);
  Persist(id, it->second, false);
}

void AgentCore::OnSyncComplete(const std::set<TaskId>& named) {
  synced_ = true;
  std::vector<TaskId> unnamed;
  size_t unnamed_live = 0;
  size_t live = 0;
  for (const auto& [id, entry] : tasks_) {
    // Orphans have no record of ours, so they are not for the breaker to keep.
    const bool lives = entry.record.stage() != TaskRecord::STAGE_ENDED && !entry.record.orphan();
    if (lives) ++live;
    if (entry.record.forgotten() || named.count(id) != 0) continue;
    unnamed.push_back(id);
    if (lives) ++unnamed_live;
  }
  const bool refused = session::BreakerRefuses(unnamed_live, live);
  if (refused) {
    after_.push_back(
        Alarm{"BREAKER_TRIPPED", absl::StrCat("the executor names none of ", unnamed_live, " of ",
                                              live, " live Tasks; they are kept")});
  }
  for (const TaskId& id : unnamed) {
    const Entry& entry = tasks_.at(id);
    if (!refused || entry.record.stage() == TaskRecord::STAGE_ENDED || entry.record.orphan()) {
      OnForgotten(id);
    }
  }
}

}  // namespace capstan::node_agent
