// The session to the scheduler.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "libs/session/fencing_token.h"
#include "libs/session/placement.h"
#include "libs/status/error.h"
#include "libs/trace/context.h"
#include "libs/trace/span.h"
#include "services/executor/core/executor_core.h"
#include "services/executor/core/keys.h"

namespace capstan::executor {

using capstan::type::v1::DesiredTask;
using capstan::type::v1::SessionUp;
using capstan::type::v1::TaskEnd;
using session::TaskId;

namespace {

// What renews leases goes the same way, behind them and their acknowledgements.
constexpr size_t kMaxReportsUnderWay = 64;

}  // namespace

void ExecutorCore::OnUpConnected(SessionId session, Now now) {
  up_.emplace();
  up_->session = session;
  SessionUp hello;
  hello.mutable_hello()->set_cluster(config_.cluster);
  hello.mutable_hello()->set_incarnation(self_.incarnation());
  hello.mutable_hello()->set_desired_revision(self_.desired_revision());
  *hello.mutable_hello()->mutable_highest_token() = self_.highest_token();
  after_.push_back(SendUp{session, std::move(hello)});

  // Everything known, in order of the journal: what was acknowledged in an earlier session too,
  // since the scheduler takes for lost what this report does not name.
  std::map<int64_t, const capstan::type::v1::TaskObservation*> reported;
  for (const auto& [id, entry] : tasks_.entries()) {
    if (entry.reported() && !entry.observed.forgotten()) {
      reported[entry.observed.sequence()] = &entry.observed.observation();
    }
  }
  session::ReportBuilder report;
  auto task = reported.begin();
  std::map<int64_t, const capstan::type::v1::NodeObservation*> nodes;
  for (const auto& [name, node] : nodes_) {
    nodes[node.record.sequence()] = &node.record.observation();
  }
  for (const auto& [sequence, node] : nodes) {
    for (; task != reported.end() && task->first < sequence; ++task) {
      report.Add(*task->second, task->first);
    }
    report.Add(*node, sequence);
  }
  for (; task != reported.end(); ++task) report.Add(*task->second, task->first);
  for (SessionUp& message : report.Build(true, self_.journal_sequence())) {
    after_.push_back(SendUp{session, std::move(message)});
  }
  up_->sent_sequence = self_.journal_sequence();
  Renew(now);
}

void ExecutorCore::Renew(Now now) {
  SessionUp message;
  *message.mutable_renewal() = up_->renewals.Send(now.boot);
  after_.push_back(SendUp{up_->session, std::move(message)});
  up_->next_renewal = now.boot + session::RenewInterval(tasks_.ShortestFence());
}

void ExecutorCore::OnUpMessage(const capstan::type::v1::SessionDown& message, Now now) {
  switch (message.message_case()) {
    case capstan::type::v1::SessionDown::kDesired:
      OnDesired(message.desired(), now);
      break;
    case capstan::type::v1::SessionDown::kRenewalAnswer:
      OnRenewalAnswer(message.renewal_answer());
      break;
    case capstan::type::v1::SessionDown::kObservationsAck:
      OnObservationsAck(message.observations_ack());
      break;
    case capstan::type::v1::SessionDown::MESSAGE_NOT_SET:
      break;
  }
}

bool ExecutorCore::AcceptToken(const capstan::type::v1::FencingToken& token) {
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

void ExecutorCore::OnRenewalAnswer(const capstan::type::v1::RenewalAnswer& answer) {
  if (!AcceptToken(answer.token())) return;
  const absl::optional<BootTime> confirmed = up_->renewals.Answered(answer);
  if (confirmed.has_value() && (!confirmed_at_.has_value() || *confirmed_at_ < *confirmed)) {
    confirmed_at_ = confirmed;
  }
}

void ExecutorCore::OnObservationsAck(const capstan::type::v1::ObservationsAck& ack) {
  journal_.erase(journal_.begin(), journal_.upper_bound(ack.journal_sequence()));
  std::deque<int64_t>& under_way = up_->under_way;
  while (!under_way.empty() && under_way.front() <= ack.journal_sequence()) under_way.pop_front();
  for (const std::string& name : ack.returned_nodes()) {
    const auto node = nodes_.find(name);
    if (node == nodes_.end() || !node->second.record.withheld() || node->second.silent() ||
        // An acknowledgement of an earlier return: the Node has been silent again since.
        ack.journal_sequence() < node->second.record.return_sequence()) {
      continue;
    }
    node->second.record.set_withheld(false);
    node->second.record.clear_return_sequence();
    persist_.Put(NodeKey(name), node->second.record);
  }
}

void ExecutorCore::FlushJournal() {
  if (!up_.has_value() || up_->sent_sequence == self_.journal_sequence()) return;
  if (up_->under_way.size() >= kMaxReportsUnderWay) return;
  session::ReportBuilder report;
  for (auto it = journal_.upper_bound(up_->sent_sequence); it != journal_.end(); ++it) {
    if (it->second.task.has_value()) {
      report.Add(tasks_.Find(*it->second.task)->observed.observation(), it->first);
    } else {
      report.Add(nodes_.at(it->second.node).record.observation(), it->first);
    }
  }
  up_->sent_sequence = self_.journal_sequence();
  std::vector<SessionUp> messages = report.Build(false, 0);
  if (messages.empty()) return;
  up_->under_way.push_back(messages.back().observations().journal_sequence());
  for (SessionUp& message : messages) {
    after_.push_back(SendUp{up_->session, std::move(message)});
  }
}

void ExecutorCore::OnDesired(const capstan::type::v1::DesiredTasks& desired, Now now) {
  if (!AcceptToken(desired.token())) return;
  if (desired.snapshot() && !up_->collecting) {
    up_->collecting = true;
    up_->named.clear();
  }
  for (const DesiredTask& task : desired.tasks()) {
    const absl::Status valid = session::CheckTaskKey(task.key());
    if (!valid.ok() || task.node().empty()) {
      after_.push_back(
          Alarm{"BAD_TASK", absl::StrCat("desired Task without a Node, or: ", valid.message())});
      continue;
    }
    const TaskId id = TaskId::Of(task.key());
    if (up_->collecting) up_->named.insert(id);
    OnDesiredTask(id, task, now);
  }
  for (const capstan::type::v1::TaskKey& key : desired.forgotten()) Forget(TaskId::Of(key));
  if (self_.desired_revision() != desired.revision()) {
    self_.set_desired_revision(desired.revision());
    PersistSelf();
  }
  if (desired.snapshot() && desired.sync_complete()) {
    up_->collecting = false;
    OnUpSyncComplete(std::exchange(up_->named, {}));
  }
}

void ExecutorCore::ContinueTrace(const TaskId& id, const TaskEntry& entry, DesiredTask* wanted,
                                 Now now) {
  const auto order = trace::Parse(wanted->launch().traceparent());
  if (!order.has_value()) return;
  if (wanted->phase() == DesiredTask::PHASE_STOP && entry.desired.has_value()) {
    // What is stopped stays where it was begun.
    wanted->mutable_launch()->set_traceparent(entry.desired->launch().traceparent());
    return;
  }
  const bool start = wanted->phase() == DesiredTask::PHASE_START;
  // Follows from the Task and the order alone: an order that comes again is the same one.
  const trace::Context own =
      trace::Derive(*order, absl::StrCat(id.Path(), start ? "/order_start" : "/order_prepare"));
  wanted->mutable_launch()->set_traceparent(trace::ToTraceparent(own));
  if (!own.sampled || (entry.desired.has_value() && entry.desired->phase() == wanted->phase())) {
    return;
  }
  trace::Span span;
  span.context = own;
  span.parent = order->span;
  span.name = start ? "executor.order_start" : "executor.order_prepare";
  span.begin = now.wall;
  span.attributes = {{"capstan.job", wanted->launch().job()},
                     {"capstan.job_uid", id.job_uid},
                     {"capstan.generation", id.generation},
                     {"capstan.task", absl::StrCat(id.group, "-", id.index)},
                     {"capstan.cluster", config_.cluster},
                     {"capstan.node", wanted->node()}};
  after_.push_back(TellSpan{std::move(span)});
}

void ExecutorCore::OnDesiredTask(const TaskId& id, const DesiredTask& task, Now now) {
  const TaskEntry* known = tasks_.Find(id);
  TaskEntry entry = known == nullptr ? TaskEntry() : *known;
  if (known != nullptr && entry.node() != task.node()) {
    // A key is placed once. Acting on it in two places could start it twice.
    after_.push_back(Alarm{"WRONG_NODE", absl::StrCat(id.Path(), " is wanted on ", task.node(),
                                                      " but is on ", entry.node())});
    return;
  }
  // Named again, by a scheduler whose store was restored: what became of it must be reported after
  // all.
  const bool again = entry.observed.forgotten();
  if (again) {
    entry.observed.set_forgotten(false);
    if (!entry.reported()) persist_.Delete(ObservedKey(id));
  }
  DesiredTask wanted = task;
  ContinueTrace(id, entry, &wanted, now);
  if (entry.desired.has_value()) {
    wanted.set_unix_uid(entry.desired->unix_uid());
    session::KeepGrant(*entry.desired, &wanted);
    // Phases only rise, whoever speaks: what was started cannot become unstarted.
    if (wanted.phase() < entry.desired->phase()) wanted = *entry.desired;
  } else {
    wanted.set_unix_uid(UidForJob(id.job_uid));
  }
  const bool without_uid = tasks_.gives_uids() && wanted.unix_uid() == 0;
  if (!entry.desired.has_value() ||
      session::SerializeDeterministic(*entry.desired) != session::SerializeDeterministic(wanted)) {
    record::v1::Desired record;
    *record.mutable_task() = wanted;
    persist_.Put(DesiredKey(id), record);
    entry.desired = std::move(wanted);
    if (!without_uid) MarkForAgent(id);
  }
  const bool ended = entry.ended();
  const bool report = again && entry.reported();
  tasks_.Set(id, std::move(entry));
  if (report) JournalTask(id);
  if (without_uid && !ended) {
    EndHere(id, TaskEnd::CAUSE_PREPARE_FAILED, "the Cluster has no free Unix uid", now);
  }
}

int64_t ExecutorCore::UidForJob(const std::string& job_uid) {
  if (!tasks_.gives_uids()) return 0;
  if (const int64_t uid = tasks_.Uid(job_uid); uid != 0) return uid;
  const int64_t uid = tasks_.PickUid(self_.last_uid());
  if (uid == 0) {
    after_.push_back(Alarm{"UIDS_EXHAUSTED", absl::StrCat("no Unix uid left for Job ", job_uid)});
    return 0;
  }
  StoreUid(job_uid, uid);
  self_.set_last_uid(uid);
  PersistSelf();
  return uid;
}

void ExecutorCore::StoreUid(const std::string& job_uid, int64_t uid) {
  if (!tasks_.TakeUid(job_uid, uid)) return;
  record::v1::JobUid record;
  record.set_unix_uid(uid);
  persist_.Put(UidKey(job_uid), record);
}

void ExecutorCore::OnUpSyncComplete(const std::set<TaskId>& named) {
  std::vector<TaskId> unnamed;
  size_t unnamed_live = 0;
  for (const auto& [id, entry] : tasks_.entries()) {
    if (entry.observed.forgotten() || named.count(id) != 0) continue;
    unnamed.push_back(id);
    if (!entry.ended()) ++unnamed_live;
  }
  const bool refused = session::BreakerRefuses(unnamed_live, tasks_.live());
  if (refused) {
    after_.push_back(
        Alarm{"BREAKER_TRIPPED", absl::StrCat("the scheduler names none of ", unnamed_live, " of ",
                                              tasks_.live(), " live Tasks; they are kept")});
  }
  for (const TaskId& id : unnamed) {
    if (!refused || tasks_.Find(id)->ended()) Forget(id);
  }
  synced_ = true;
  for (auto& [session, agent] : agents_) {
    if (agent.greeted && !agent.sync_sent) SendSnapshot(session, agent);
  }
}

}  // namespace capstan::executor
