// What executors say, and what they are told.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/resource/id.h"
#include "libs/session/fencing_token.h"
#include "libs/session/lower_side.h"
#include "libs/status/error.h"
#include "libs/time/proto_time.h"
#include "services/scheduler/core/gang_state.h"
#include "services/scheduler/core/node_terms.h"
#include "services/scheduler/core/scheduler_core.h"

namespace capstan::scheduler {

using capstan::scheduler::v1::Node;
using capstan::type::v1::DesiredTask;
using capstan::type::v1::NodeObservation;
using capstan::type::v1::ObservationsAck;
using capstan::type::v1::SessionDown;
using capstan::type::v1::TaskEnd;
using capstan::type::v1::TaskKey;
using capstan::type::v1::TaskObservation;

namespace {

// What placing depends on, of what is said about a Node.
std::string Said(NodeObservation observation) {
  observation.clear_disk_free_bytes();
  observation.clear_disk_total_bytes();
  return session::SerializeDeterministic(observation);
}

}  // namespace

void SchedulerCore::On(const HelloReceived& event) {
  const std::string& cluster = event.hello.cluster();
  if (!resource::IsValidId(cluster)) {
    effects_.push_back(CloseSession{
        event.session, status::Error(absl::StatusCode::kInvalidArgument, "INVALID_CLUSTER",
                                     absl::StrCat("`", cluster, "` is no cluster id"))});
    return;
  }
  if (session::CompareTokens(event.hello.highest_token(), token_) > 0) {
    // Someone with a higher token has spoken to it: we are deposed and do not know it yet, or our
    // store is older than what the executor has seen.
    effects_.push_back(CloseSession{
        event.session,
        status::Error(absl::StatusCode::kFailedPrecondition, "STALE_LEADER",
                      "the executor has obeyed a leader with a higher fencing token")});
    return;
  }
  auto old = sessions_.find(cluster);
  if (old != sessions_.end()) {
    effects_.push_back(CloseSession{
        old->second.id, status::Error(absl::StatusCode::kAborted, "SESSION_REPLACED",
                                      "a newer session of the same cluster has begun")});
    session_clusters_.erase(old->second.id);
    sessions_.erase(old);
  }
  const bool known = model_.clusters.count(cluster) > 0;
  rec::ClusterRecord& record = model_.clusters[cluster];
  if (!known || record.incarnation() != event.hello.incarnation()) {
    record.set_schema_version(1);
    record.set_incarnation(event.hello.incarnation());
    record.set_journal_sequence(0);
    dirty_clusters_.insert(cluster);
  }
  if (!known) leases_.AddCluster(cluster, now_.boot);
  Session& session = sessions_[cluster];
  session.id = event.session;
  session.snapshot_due = true;
  session_clusters_[event.session] = cluster;
  Heard(cluster);
  if (!known) ClustersChanged();
}

SchedulerCore::Session* SchedulerCore::FindSession(SessionId id, std::string* cluster) {
  auto it = session_clusters_.find(id);
  if (it == session_clusters_.end()) return nullptr;
  *cluster = it->second;
  return &sessions_[it->second];
}

void SchedulerCore::Heard(const std::string& cluster) {
  const bool was_silent = leases_.ClusterSilent(cluster);
  leases_.Heard(cluster, now_.boot);
  if (was_silent || clusters_unheard_.erase(cluster) > 0) RefreshNodeStates(cluster);
}

void SchedulerCore::On(const RenewalReceived& event) {
  std::string cluster;
  if (FindSession(event.session, &cluster) == nullptr) return;
  Heard(cluster);
  // A leader whose lease may have run out no longer speaks for the scheduler.
  if (now_.boot >= event.leader_until) return;
  SendDown send;
  send.session = event.session;
  send.send_before = event.leader_until;
  auto& answer = *send.message.mutable_renewal_answer();
  answer.set_sequence(event.sequence);
  *answer.mutable_confirmation_age() = ToProto(absl::ZeroDuration());
  *answer.mutable_token() = token_;
  effects_.push_back(std::move(send));
}

void SchedulerCore::On(const SessionClosed& event) {
  auto it = session_clusters_.find(event.session);
  if (it == session_clusters_.end()) return;
  sessions_.erase(it->second);
  session_clusters_.erase(it);
}

void SchedulerCore::On(const ObservationsReceived& event) {
  std::string cluster;
  Session* session = FindSession(event.session, &cluster);
  if (session == nullptr) return;
  Heard(cluster);
  SendDown send;
  send.session = event.session;
  ObservationsAck& ack = *send.message.mutable_observations_ack();
  const int64_t sequence = event.observations.journal_sequence();
  for (const NodeObservation& node : event.observations.nodes()) {
    ObserveNode(cluster, node, session);
  }
  for (const TaskObservation& task : event.observations.tasks()) {
    ObserveTask(cluster, task, session);
  }
  if (event.observations.sync_complete() && !session->synced) CompleteSync(cluster, session);
  // No Node is confirmed again before its stray Tasks have been named and ordered to stop.
  if (session->synced) {
    ack.mutable_returned_nodes()->Assign(session->returned.begin(), session->returned.end());
    session->returned.clear();
  }
  rec::ClusterRecord& record = model_.clusters[cluster];
  if (sequence > record.journal_sequence()) {
    record.set_journal_sequence(sequence);
    dirty_clusters_.insert(cluster);
  }
  ack.set_journal_sequence(sequence);
  acks_.push_back(std::move(send));
}

void SchedulerCore::ObserveNode(const std::string& cluster, const NodeObservation& reported,
                                Session* session) {
  if (!resource::IsValidId(reported.node())) return;
  NodeObservation observation = reported;
  DropMalformedTaints(observation.mutable_taints());
  const NodeId id{cluster, observation.node()};
  const bool known = model_.nodes.count(id) > 0;
  rec::NodeRecord& record = model_.nodes[id];
  const bool same = known && Said(record.observation()) == Said(observation);
  if (!same || record.state() != Node::STATE_ACTIVE) {
    room_changed_ = true;
    hopeless_.clear();
  }
  // Its labels may put it into one.
  if (!same && !model_.maintenance_windows.empty()) maintenance_at_ = absl::InfinitePast();
  if (session::SerializeDeterministic(record.observation()) !=
      session::SerializeDeterministic(observation)) {
    TouchNode(id);
    standing_book_.SetReported(id);
  }
  record.set_schema_version(1);
  *record.mutable_observation() = observation;
  if (dirty_nodes_.count(id) > 0) *record.mutable_observe_time() = ToProto(now_.wall);
  if (!known) {
    leases_.AddNode(id, observation.silent(), /*given_up=*/false, now_.boot);
  }
  leases_.ReportNode(id, observation.silent(), now_.boot);
  if (draining_.erase(id) > 0) room_changed_ = true;
  if (observation.silent()) {
    SilenceNode(id, session);
    return;
  }
  if (session->nodes_heard.insert(id).second) room_changed_ = true;
  if (record.state() != Node::STATE_ACTIVE) {
    record.set_state(Node::STATE_ACTIVE);
    TouchNode(id);
  }
  given_up_.erase(id);
  session->returned.insert(id.node);
}

void SchedulerCore::SilenceNode(const NodeId& id, Session* session) {
  session->nodes_heard.erase(id);
  session->returned.erase(id.node);
  rec::NodeRecord& record = model_.nodes[id];
  record.mutable_observation()->set_silent(true);
  leases_.ReportNode(id, /*silent=*/true, now_.boot);
  if (record.state() != Node::STATE_GIVEN_UP) record.set_state(Node::STATE_SILENT);
  TouchNode(id);
}

void SchedulerCore::ObserveTask(const std::string& cluster, const TaskObservation& observation,
                                Session* session) {
  const TaskKey& key = observation.key();
  JobEntry* job = FindJob(key.job_uid());
  const int rank = job == nullptr ? -1 : RankOf(*job, key.group(), key.index());
  const bool current = rank >= 0 && job->live() &&
                       job->gang->head.generation() == key.generation() &&
                       job->gang->node(rank) == NodeId{cluster, observation.node()};
  if (rank >= 0 && job->live() && job->gang->head.generation() == key.generation() && !current) {
    return;  // said of a Node that the Task was never placed on: a STOP would hit the real one
  }
  if (current) {
    if (!session->synced) session->tasks_named.insert({key.job_uid(), rank});
    const TaskObservation::State before = job->gang->tasks[rank].state();
    if (ApplyObservation(observation, rank, &*job->gang)) {
      TouchTask(*job, rank);
      const TaskObservation::State after = job->gang->tasks[rank].state();
      if (before != after) TellTask(*job, rank);
      if (after == TaskObservation::STATE_ENDED) {
        room_changed_ = true;
        Touch(*job).gang = true;
        if (observation.end().cause() == TaskEnd::CAUSE_STOPPED &&
            job->gang->head.phase() != rec::GangHeadRecord::PHASE_STOPPING) {
          draining_.insert(job->gang->node(rank));
        }
      }
      if (preparing_.Has(job->uid())) {
        preparing_.Set(job->uid(), now_.boot + config_.prepare_timeout);
      }
      Advance(job);
    }
  }
  if (observation.state() == TaskObservation::STATE_ENDED) {
    // Its end is stored with this step, or was before, or is of no interest to anyone.
    forgotten_[cluster].push_back(key);
  } else if (!current || !job->live() || job->gang->ended(rank)) {
    strays_[cluster].push_back(StopStray(key, observation.node(), job));
  }
}

void SchedulerCore::CompleteSync(const std::string& cluster, Session* session) {
  session->synced = true;
  room_changed_ = true;
  // A Node that is missing from a whole report is unknown to an executor that has lost its store.
  // It is counted as silent from here: such an executor renews a Node only after the
  // acknowledgement of its first report of it.
  for (auto it = model_.nodes.lower_bound({cluster, ""});
       it != model_.nodes.end() && it->first.cluster == cluster; ++it) {
    if (session->nodes_heard.count(it->first) == 0 && !it->second.observation().silent()) {
      SilenceNode(it->first, session);
    }
  }
  // An executor that hears the Node and does not name a Task it once reported there has no such
  // Task. Of a Node it does not hear it cannot know.
  const std::set<std::string> live = live_;
  for (const std::string& uid : live) {
    JobEntry& job = *FindJob(uid);
    if (!job.live() || job.gang->head.cluster() != cluster) continue;
    bool changed = false;
    for (int rank = 0; rank < static_cast<int>(job.gang->tasks.size()); ++rank) {
      if (job.gang->tasks[rank].state() == TaskObservation::STATE_UNSPECIFIED ||
          job.gang->ended(rank) || session->tasks_named.count({uid, rank}) > 0 ||
          session->nodes_heard.count(job.gang->node(rank)) == 0) {
        continue;
      }
      EndTask(TaskEnd::CAUSE_LOST, "its executor no longer knows of it", rank, &*job.gang);
      TouchTask(job, rank);
      Touch(job).gang = true;
      TellTask(job, rank);
      changed = true;
    }
    if (changed) Advance(&job);
  }
  session->tasks_named.clear();
}

void SchedulerCore::RefreshNodeStates(const std::string& cluster) {
  for (auto it = model_.nodes.lower_bound({cluster, ""});
       it != model_.nodes.end() && it->first.cluster == cluster; ++it) {
    const NodeId& id = it->first;
    Node::State state = Node::STATE_ACTIVE;
    if (leases_.NodeSilent(id)) {
      state = given_up_.count(id) > 0 ? Node::STATE_GIVEN_UP : Node::STATE_SILENT;
    } else {
      given_up_.erase(id);
    }
    if (it->second.state() == state) continue;
    it->second.set_state(state);
    TouchNode(id);
    room_changed_ = true;
  }
}

void SchedulerCore::SendDesired(const std::string& cluster) {
  Session& open = sessions_[cluster];
  std::vector<DesiredTask> tasks;
  auto add = [&](const JobEntry& job) {
    if (!job.live() || job.gang->head.cluster() != cluster) return;
    const RendezvousTable table = TableOf(*job.gang);
    for (int rank = 0; rank < static_cast<int>(job.gang->tasks.size()); ++rank) {
      if (!job.gang->ended(rank)) tasks.push_back(DesiredOf(job, rank, table));
    }
  };
  if (open.snapshot_due) {
    for (const std::string& uid : live_) add(*FindJob(uid));
  } else {
    for (const std::string& uid : resend_) add(*FindJob(uid));
    for (DesiredTask& stray : strays_[cluster]) tasks.push_back(std::move(stray));
  }
  session::DesiredBuilder builder(token_, /*revision=*/0, open.snapshot_due);
  for (DesiredTask& task : tasks) builder.Add(std::move(task));
  for (const TaskKey& key : forgotten_[cluster]) builder.AddForgotten(key);
  for (SessionDown& message : builder.Build(/*sync_complete=*/open.snapshot_due)) {
    effects_.push_back(SendDown{open.id, std::move(message)});
  }
  open.snapshot_due = false;
}

}  // namespace capstan::scheduler
