#include "services/executor/core/executor_core.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libs/session/fencing_token.h"
#include "libs/status/status_macros.h"
#include "libs/store/record.h"
#include "services/executor/core/keys.h"

namespace capstan::executor {

using capstan::type::v1::TaskEnd;
using capstan::type::v1::TaskObservation;
using session::TaskId;

namespace {

constexpr int kSchema = 1;

}  // namespace

absl::StatusOr<ExecutorCore> ExecutorCore::Load(CoreConfig config,
                                                const std::vector<store::KeyValue>& records,
                                                Now now) {
  ExecutorCore core(std::move(config));
  core.fresh_ = true;
  std::map<TaskId, TaskEntry> entries;
  for (const store::KeyValue& kv : records) {
    absl::string_view rest = kv.key;
    if (kv.key == kSelfKey) {
      CAPSTAN_RETURN_IF_ERROR(store::ParseRecord(kv, kSchema, &core.self_));
      core.fresh_ = false;
    } else if (absl::ConsumePrefix(&rest, kDesiredPrefix)) {
      CAPSTAN_ASSIGN_OR_RETURN(const TaskId id, TaskId::FromPath(rest));
      record::v1::Desired desired;
      CAPSTAN_RETURN_IF_ERROR(store::ParseRecord(kv, kSchema, &desired));
      entries[id].desired = std::move(*desired.mutable_task());
    } else if (absl::ConsumePrefix(&rest, kObservedPrefix)) {
      CAPSTAN_ASSIGN_OR_RETURN(const TaskId id, TaskId::FromPath(rest));
      CAPSTAN_RETURN_IF_ERROR(store::ParseRecord(kv, kSchema, &entries[id].observed));
    } else if (absl::ConsumePrefix(&rest, kNodePrefix)) {
      NodeEntry& node = core.nodes_[std::string(rest)];
      CAPSTAN_RETURN_IF_ERROR(store::ParseRecord(kv, kSchema, &node.record));
      // Nobody listened while the executor was away.
      node.last_heard = now.boot;
    } else if (absl::ConsumePrefix(&rest, kUidPrefix)) {
      record::v1::JobUid uid;
      CAPSTAN_RETURN_IF_ERROR(store::ParseRecord(kv, kSchema, &uid));
      if (!core.tasks_.TakeUid(std::string(rest), uid.unix_uid())) {
        return absl::DataLossError(absl::StrCat("two Jobs share the uid of ", kv.key));
      }
    }
  }
  for (auto& [id, entry] : entries) {
    if (entry.reported() && !entry.observed.forgotten()) {
      core.journal_[entry.observed.sequence()] = Entry{id, ""};
    }
    core.tasks_.Set(id, std::move(entry));
  }
  for (const auto& [name, node] : core.nodes_) {
    core.journal_[node.record.sequence()] = Entry{absl::nullopt, name};
  }
  return core;
}

std::map<std::string, std::string> ExecutorCore::Snapshot() const {
  std::map<std::string, std::string> records;
  records[kSelfKey] = session::SerializeDeterministic(self_);
  for (const auto& [id, entry] : tasks_.entries()) {
    if (entry.desired.has_value()) {
      record::v1::Desired desired;
      *desired.mutable_task() = *entry.desired;
      records[DesiredKey(id)] = session::SerializeDeterministic(desired);
    }
    if (entry.reported() || entry.observed.forgotten()) {
      records[ObservedKey(id)] = session::SerializeDeterministic(entry.observed);
    }
  }
  for (const auto& [name, node] : nodes_) {
    records[NodeKey(name)] = session::SerializeDeterministic(node.record);
  }
  for (const auto& [job, uid] : tasks_.uids()) {
    record::v1::JobUid record;
    record.set_unix_uid(uid);
    records[UidKey(job)] = session::SerializeDeterministic(record);
  }
  return records;
}

Step ExecutorCore::Apply(const Event& event, Now now) {
  if (std::holds_alternative<Started>(event)) {
    if (fresh_) {
      fresh_ = false;
      self_.set_incarnation(absl::ToUnixMicros(now.wall));
      if (tasks_.gives_uids()) {
        // A store that was lost leaves uids in use that no record names: a new one begins
        // elsewhere.
        const int64_t size = tasks_.last_uid() - tasks_.first_uid() + 1;
        self_.set_last_uid(tasks_.first_uid() + self_.incarnation() % size);
      }
      PersistSelf();
    }
  } else if (const auto* up = std::get_if<UpConnected>(&event)) {
    OnUpConnected(up->session, now);
  } else if (const auto* message = std::get_if<UpMessage>(&event)) {
    if (up_.has_value() && up_->session == message->session) OnUpMessage(message->message, now);
  } else if (const auto* gone = std::get_if<UpDisconnected>(&event)) {
    if (up_.has_value() && up_->session == gone->session) up_.reset();
  } else if (const auto* agent = std::get_if<AgentConnected>(&event)) {
    OnAgentConnected(agent->session, agent->node);
  } else if (const auto* report = std::get_if<AgentMessage>(&event)) {
    OnAgentMessage(report->session, report->message, now);
  } else if (const auto* lost = std::get_if<AgentDisconnected>(&event)) {
    CloseAgentSession(lost->session, absl::OkStatus());
  } else {
    FindSilentNodes(now);
    if (up_.has_value() && up_->next_renewal <= now.boot) Renew(now);
  }
  if (up_.has_value()) {
    // A Task that has just come may need it sooner than was planned.
    up_->next_renewal =
        std::min(up_->next_renewal, now.boot + session::RenewInterval(tasks_.ShortestFence()));
  }
  SendMarked();
  FlushJournal();
  Step step;
  persist_.MoveTo(kSelfKey, &step.puts, &step.deletes);
  step.after = std::exchange(after_, {});
  return step;
}

absl::optional<BootTime> ExecutorCore::NextDeadline() const {
  absl::optional<BootTime> next;
  const auto earlier = [&next](BootTime time) {
    if (!next.has_value() || time < *next) next = time;
  };
  if (up_.has_value()) earlier(up_->next_renewal);
  for (const auto& [name, node] : nodes_) {
    if (!node.silent()) earlier(node.last_heard + config_.suspect_after);
  }
  return next;
}

int64_t ExecutorCore::NextSequence() {
  self_.set_journal_sequence(self_.journal_sequence() + 1);
  PersistSelf();
  return self_.journal_sequence();
}

void ExecutorCore::JournalTask(const TaskId& id) {
  TaskEntry entry = *tasks_.Find(id);
  journal_.erase(entry.observed.sequence());
  entry.observed.set_sequence(NextSequence());
  persist_.Put(ObservedKey(id), entry.observed);
  // The scheduler has no record of a forgotten Task left that a report could change.
  if (!entry.observed.forgotten()) journal_[entry.observed.sequence()] = Entry{id, ""};
  tasks_.Set(id, std::move(entry));
}

void ExecutorCore::JournalNode(const std::string& node) {
  NodeEntry& entry = nodes_[node];
  journal_.erase(entry.record.sequence());
  entry.record.set_sequence(NextSequence());
  persist_.Put(NodeKey(node), entry.record);
  journal_[entry.record.sequence()] = Entry{absl::nullopt, node};
}

void ExecutorCore::JournalReturn(const std::string& node) {
  JournalNode(node);
  NodeEntry& entry = nodes_[node];
  entry.record.set_return_sequence(entry.record.sequence());
  persist_.Put(NodeKey(node), entry.record);
}

void ExecutorCore::EndHere(const TaskId& id, TaskEnd::Cause cause, const std::string& message,
                           Now now) {
  TaskEntry entry = *tasks_.Find(id);
  TaskObservation* observation = entry.observed.mutable_observation();
  *observation->mutable_key() = id.ToProto();
  observation->set_node(entry.node());
  observation->set_state(TaskObservation::STATE_ENDED);
  observation->mutable_end()->set_cause(cause);
  observation->mutable_end()->set_message(message);
  observation->mutable_observe_time()->set_seconds(absl::ToUnixSeconds(now.wall));
  tasks_.Set(id, std::move(entry));
  JournalTask(id);
  if (tasks_.Find(id)->observed.forgotten()) MarkForAgent(id);
}

void ExecutorCore::Forget(const TaskId& id) {
  const TaskEntry* known = tasks_.Find(id);
  if (known == nullptr || known->observed.forgotten()) return;
  TaskEntry entry = *known;
  entry.observed.set_forgotten(true);
  journal_.erase(entry.observed.sequence());
  if (!entry.ended() && entry.desired.has_value() &&
      entry.desired->phase() != capstan::type::v1::DesiredTask::PHASE_STOP) {
    entry.desired->set_phase(capstan::type::v1::DesiredTask::PHASE_STOP);
    entry.desired->mutable_stop()->set_reason(capstan::type::v1::Stop::REASON_GANG_FAILED);
    *entry.desired->mutable_stop()->mutable_grace() = entry.desired->launch().stop_grace();
    record::v1::Desired desired;
    *desired.mutable_task() = *entry.desired;
    persist_.Put(DesiredKey(id), desired);
  }
  persist_.Put(ObservedKey(id), entry.observed);
  tasks_.Set(id, std::move(entry));
  MarkForAgent(id);
}

void ExecutorCore::Erase(const TaskId& id) {
  const TaskEntry* entry = tasks_.Find(id);
  journal_.erase(entry->observed.sequence());
  persist_.Delete(DesiredKey(id));
  persist_.Delete(ObservedKey(id));
  if (tasks_.Erase(id) && tasks_.Uid(id.job_uid) != 0) {
    tasks_.ReleaseUid(id.job_uid);
    persist_.Delete(UidKey(id.job_uid));
  }
}

void ExecutorCore::PersistSelf() { persist_.Put(kSelfKey, self_); }

}  // namespace capstan::executor
