// The sessions of the agents, and the silence of Nodes.
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "libs/session/fencing_token.h"
#include "libs/status/error.h"
#include "services/executor/core/executor_core.h"
#include "services/executor/core/keys.h"

namespace capstan::executor {

using capstan::type::v1::DesiredTask;
using capstan::type::v1::SessionDown;
using capstan::type::v1::SessionUp;
using capstan::type::v1::TaskEnd;
using capstan::type::v1::TaskObservation;
using session::TaskId;

namespace {

absl::Status SessionReplaced() {
  return status::Error(absl::StatusCode::kAborted, "SESSION_REPLACED",
                       "the Node has opened another session");
}

// What an agent is told of a Task. One that was reported ended must not be begun by an agent that
// knows nothing of it (its store was lost): the gang may already run again.
DesiredTask OrderFor(const TaskEntry& entry) {
  DesiredTask order = *entry.desired;
  if (entry.ended() && order.phase() != DesiredTask::PHASE_STOP) {
    order.set_phase(DesiredTask::PHASE_STOP);
    order.mutable_stop()->set_reason(capstan::type::v1::Stop::REASON_GANG_FAILED);
    *order.mutable_stop()->mutable_grace() = order.launch().stop_grace();
  }
  return order;
}

}  // namespace

void ExecutorCore::OnAgentConnected(SessionId session, const std::string& node) {
  agents_[session].node = node;
  // Else a Node that opens sessions without end and says nothing would take all that there are.
  const auto [waiting, first] = ungreeted_by_node_.try_emplace(node, session);
  if (!first) CloseAgentSession(std::exchange(waiting->second, session), SessionReplaced());
}

void ExecutorCore::CloseAgentSession(SessionId session, absl::Status status) {
  const auto it = agents_.find(session);
  if (it == agents_.end()) return;
  for (auto* sessions : {&sessions_by_node_, &ungreeted_by_node_}) {
    const auto current = sessions->find(it->second.node);
    if (current != sessions->end() && current->second == session) sessions->erase(current);
  }
  agents_.erase(it);
  if (!status.ok()) after_.push_back(CloseAgent{session, std::move(status)});
}

void ExecutorCore::OnAgentMessage(SessionId session, const SessionUp& message, Now now) {
  const auto it = agents_.find(session);
  if (it == agents_.end()) return;
  Agent& agent = it->second;
  if (message.has_hello() == agent.greeted) {
    CloseAgentSession(session, status::Error(absl::StatusCode::kInvalidArgument, "BAD_HELLO",
                                             "hello comes first, and once"));
    return;
  }
  switch (message.message_case()) {
    case SessionUp::kHello:
      OnAgentHello(session, agent, message.hello());
      // The session may have been refused: that must not make a Node heard.
      if (agents_.count(session) != 0) HeardNode(agents_.at(session).node, now);
      return;
    case SessionUp::kRenewal:
      HeardNode(agent.node, now);
      OnAgentRenewal(session, agent, message.renewal(), now);
      return;
    case SessionUp::kObservations:
      HeardNode(agent.node, now);
      OnAgentObservations(session, agent, message.observations(), now);
      return;
    case SessionUp::MESSAGE_NOT_SET:
      return;
  }
}

void ExecutorCore::OnAgentHello(SessionId session, Agent& agent,
                                const capstan::type::v1::Hello& hello) {
  if (hello.cluster() != config_.cluster || hello.node() != agent.node) {
    CloseAgentSession(
        session, status::Error(absl::StatusCode::kInvalidArgument, "BAD_HELLO",
                               absl::StrCat("this is the executor of Cluster ", config_.cluster,
                                            ", and the certificate is of Node ", agent.node)));
    return;
  }
  if (session::CompareTokens(hello.highest_token(), self_.highest_token()) > 0) {
    // The agent has heard a later leader than this executor: what is stored here may be out of
    // date.
    CloseAgentSession(session, status::Error(absl::StatusCode::kUnavailable, "EXECUTOR_BEHIND",
                                             "the executor has not heard that leader yet"));
    return;
  }
  const auto other = sessions_by_node_.find(agent.node);
  if (other != sessions_by_node_.end()) {
    CloseAgentSession(other->second, SessionReplaced());
  }
  sessions_by_node_[agent.node] = session;
  ungreeted_by_node_.erase(agent.node);
  agent.greeted = true;
  agent.named = std::make_unique<std::set<TaskId>>();
  SendSnapshot(session, agent);
}

void ExecutorCore::SendSnapshot(SessionId session, Agent& agent) {
  session::DesiredBuilder snapshot(self_.highest_token(), self_.desired_revision(), true);
  for (const TaskId& id : tasks_.OnNode(agent.node)) {
    const TaskEntry& entry = *tasks_.Find(id);
    if (entry.observed.forgotten() && entry.ended()) {
      snapshot.AddForgotten(id.ToProto());
    } else if (entry.desired.has_value()) {
      snapshot.Add(OrderFor(entry));
    }
    marked_.erase(id);
  }
  agent.sync_sent = synced_;
  for (SessionDown& message : snapshot.Build(synced_)) {
    after_.push_back(SendAgent{session, std::move(message)});
  }
}

void ExecutorCore::MarkForAgent(const TaskId& id) { marked_.insert(id); }

void ExecutorCore::SendMarked() {
  std::map<SessionId, session::DesiredBuilder> deltas;
  for (const TaskId& id : std::exchange(marked_, {})) {
    const TaskEntry* entry = tasks_.Find(id);
    if (entry == nullptr) continue;
    const auto session = sessions_by_node_.find(entry->node());
    if (session == sessions_by_node_.end()) continue;
    auto& delta =
        deltas.try_emplace(session->second, self_.highest_token(), self_.desired_revision(), false)
            .first->second;
    if (entry->observed.forgotten() && entry->ended()) {
      delta.AddForgotten(id.ToProto());
    } else if (entry->desired.has_value()) {
      delta.Add(OrderFor(*entry));
    }
  }
  for (auto& [session, delta] : deltas) {
    for (SessionDown& message : delta.Build(false)) {
      after_.push_back(SendAgent{session, std::move(message)});
    }
  }
}

void ExecutorCore::OnAgentRenewal(SessionId session, const Agent& agent,
                                  const capstan::type::v1::Renewal& renewal, Now now) {
  const auto node = nodes_.find(agent.node);
  if (!confirmed_at_.has_value() || node == nodes_.end() || !node->second.renewable()) return;
  SessionDown message;
  auto* answer = message.mutable_renewal_answer();
  answer->set_sequence(renewal.sequence());
  *answer->mutable_confirmation_age() = session::ToProto(now.boot - *confirmed_at_);
  *answer->mutable_token() = self_.highest_token();
  after_.push_back(SendAgent{session, std::move(message)});
}

void ExecutorCore::HeardNode(const std::string& node, Now now) {
  const auto it = nodes_.find(node);
  if (it == nodes_.end()) return;
  it->second.last_heard = now.boot;
  if (!it->second.silent()) return;
  it->second.record.mutable_observation()->set_silent(false);
  JournalReturn(node);
}

void ExecutorCore::FindSilentNodes(Now now) {
  const absl::Duration tolerated = config_.suspect_after / 3;
  for (auto& [name, node] : nodes_) {
    const BootTime due = node.last_heard + config_.suspect_after;
    if (node.silent() || due > now.boot) continue;
    if (now.boot - due > tolerated) {
      // The executor itself was stopped: what the agents sent meanwhile is still to be read.
      node.last_heard = now.boot - config_.suspect_after + tolerated;
      continue;
    }
    node.record.mutable_observation()->set_silent(true);
    node.record.set_withheld(true);
    node.record.clear_return_sequence();
    JournalNode(name);
    after_.push_back(
        Alarm{"NODE_SILENT", absl::StrCat("Node ", name, " was not heard for ",
                                          absl::FormatDuration(config_.suspect_after))});
  }
}

void ExecutorCore::OnAgentObservations(SessionId session, Agent& agent,
                                       const capstan::type::v1::Observations& observations,
                                       Now now) {
  const std::string node = agent.node;
  for (const auto& observation : observations.nodes()) {
    if (observation.node() != node) continue;
    const auto [it, added] = nodes_.try_emplace(node);
    capstan::type::v1::NodeObservation next = observation;
    next.set_silent(it->second.silent());
    if (!added && session::SerializeDeterministic(next) ==
                      session::SerializeDeterministic(it->second.record.observation())) {
      continue;
    }
    *it->second.record.mutable_observation() = std::move(next);
    if (added) {
      // The scheduler may count it as silent since a store of ours was lost.
      it->second.last_heard = now.boot;
      it->second.record.set_withheld(true);
      JournalReturn(node);
    } else {
      JournalNode(node);
    }
  }
  for (const TaskObservation& task : observations.tasks()) {
    if (!session::CheckTaskKey(task.key()).ok()) {
      after_.push_back(Alarm{"BAD_TASK", absl::StrCat("Node ", node, " reports a malformed key")});
      continue;
    }
    if (agent.named != nullptr) agent.named->insert(TaskId::Of(task.key()));
    OnAgentTask(node, task);
  }
  for (const auto& key : observations.gone()) OnAgentGone(node, TaskId::Of(key), now);
  if (observations.sync_complete() && agent.named != nullptr) {
    const auto named = std::exchange(agent.named, nullptr);
    OnAgentSyncComplete(node, *named, now);
  }
  SessionDown message;
  message.mutable_observations_ack()->set_journal_sequence(observations.journal_sequence());
  after_.push_back(SendAgent{session, std::move(message)});
}

void ExecutorCore::OnAgentTask(const std::string& node, const TaskObservation& task) {
  const TaskId id = TaskId::Of(task.key());
  const TaskEntry* known = tasks_.Find(id);
  TaskEntry entry = known == nullptr ? TaskEntry() : *known;
  if (known != nullptr && entry.node() != node) {
    after_.push_back(Alarm{"WRONG_NODE", absl::StrCat("Node ", node, " reports ", id.Path(),
                                                      ", which is on ", entry.node())});
    return;
  }
  // States only move forward, and the first end stands.
  if (entry.ended() || task.state() < entry.observed.observation().state()) {
    if (entry.ended() && entry.observed.forgotten()) MarkForAgent(id);
    return;
  }
  TaskObservation next = task;
  next.set_node(node);
  // The time at which the same was seen again is no news.
  TaskObservation before = entry.observed.observation();
  *before.mutable_observe_time() = next.observe_time();
  if (entry.reported() &&
      session::SerializeDeterministic(next) == session::SerializeDeterministic(before)) {
    return;
  }
  if (next.unix_uid() > 0 && tasks_.gives_uids() && tasks_.Uid(id.job_uid) == 0) {
    StoreUid(id.job_uid, next.unix_uid());
  }
  *entry.observed.mutable_observation() = std::move(next);
  const bool collect = entry.ended() && entry.observed.forgotten();
  tasks_.Set(id, std::move(entry));
  JournalTask(id);
  if (collect) MarkForAgent(id);
}

void ExecutorCore::OnAgentGone(const std::string& node, const TaskId& id, Now now) {
  const TaskEntry* entry = tasks_.Find(id);
  if (entry == nullptr || entry->node() != node) return;
  if (entry->observed.forgotten()) {
    Erase(id);
  } else if (!entry->ended()) {
    EndHere(id, TaskEnd::CAUSE_LOST, "the Node removed the Task", now);
  }
}

void ExecutorCore::OnAgentSyncComplete(const std::string& node, const std::set<TaskId>& named,
                                       Now now) {
  const std::set<TaskId> here = tasks_.OnNode(node);
  for (const TaskId& id : here) {
    if (named.count(id) != 0) continue;
    const TaskEntry& entry = *tasks_.Find(id);
    if (entry.observed.forgotten()) {
      Erase(id);
    } else if (entry.reported() && !entry.ended()) {
      EndHere(id, TaskEnd::CAUSE_LOST, "the Node no longer knows the Task", now);
    }
  }
}

}  // namespace capstan::executor
