// Cores that are asked what would happen. They are made from stored state alone, so that a follower
// can answer; what only a leader knows is supposed here.
#include <memory>
#include <string>
#include <utility>

#include "services/scheduler/core/core_round.h"
#include "services/scheduler/core/gang_state.h"
#include "services/scheduler/core/scheduler_core.h"
#include "services/scheduler/core/tight_placer.h"

namespace capstan::scheduler {

using capstan::scheduler::v1::Node;
using capstan::type::v1::TaskEnd;

namespace {

constexpr char kOwner[] = "supposed";
// A burst beyond it is not used up.
constexpr int kMaxBurstUsed = 100'000;

}  // namespace

std::unique_ptr<SchedulerCore> SchedulerCore::Suppose(const CoreConfig& config, Model model,
                                                      const Now& now) {
  std::unique_ptr<SchedulerCore> core(
      new SchedulerCore(config, std::move(model), /*garbage=*/{}, std::make_unique<TightPlacer>()));
  core->now_ = now;
  core->queue_book_.SetNow(now);
  core->On(LeadershipGained());
  // No gang is looked for that was not found before.
  core->seeking_orders_.clear();
  for (const auto& [id, node] : core->model_.nodes) {
    if (node.state() == Node::STATE_ACTIVE) core->sessions_[id.cluster].nodes_heard.insert(id);
  }
  SessionId last = 0;
  for (auto& [cluster, session] : core->sessions_) {
    session.id = ++last;
    session.synced = true;
    core->session_clusters_[session.id] = cluster;
  }
  // Nobody grows in the moment that is looked at.
  core->growers_.clear();
  // The states of Nodes are those that the leader stored.
  core->clusters_unheard_.clear();
  for (auto at = core->model_.jobs.begin(); at != core->model_.jobs.end(); ++at) {
    if (at.glance().reason != "QUEUE_RATE") continue;
    const JobEntry& job = at->second;
    if (!core->queue_book_.IsWaiting(job)) continue;
    for (int i = 0; i < kMaxBurstUsed && !core->queue_book_.StartWait(job).has_value(); ++i) {
      core->queue_book_.TakeStart(job);
    }
  }
  return core;
}

void SchedulerCore::ForeseeRound(const Now& now) {
  now_ = now;
  queue_book_.SetNow(now);
  foreseen_.reset();
  // A Job that comes may be nominated to an order, or outrank one that returns to its place.
  if (now.boot < round_at_ || !model_.capacity_orders.empty() || !returning_.empty()) return;
  foreseen_ = std::make_shared<RoundWork>(&held_book_, &standing_book_);
  BeginRound(foreseen_.get());
  foreseen_->placing->Prepare();
}

void SchedulerCore::SeeNodes(absl::Time now, std::vector<NodeStanding>* seen) {
  // It has what is to be seen.
  foreseen_.reset();
  standing_book_.SetChanged(usage_.TakeChanged());
  *seen = standing_book_.Look({model_, usage_, draining_, UnreportedNodes(), now});
}

void SchedulerCore::SupposeNodes(const SupposedNodes& nodes, const Now& now) {
  foreseen_.reset();
  now_ = now;
  queue_book_.SetNow(now);
  for (const NodeId& id : nodes.cordoned) On(CordonNode{0, id.cluster, id.node, kOwner, kOwner});
  for (const NodeId& id : nodes.uncordoned) {
    const auto cordons = model_.nodes.at(id).cordons();
    for (const auto& cordon : cordons) {
      On(UncordonNode{0, id.cluster, id.node, cordon.owner()});
    }
  }
  for (const auto& [cluster, observation] : nodes.added) {
    ObserveNode(cluster, observation, &sessions_.at(cluster));
  }
  std::set<std::string> hit;
  for (const NodeId& id : nodes.removed) {
    // It takes nothing more; nobody is to think that the observer is blind.
    draining_.insert(id);
    const std::set<std::string>& jobs = usage_.Get(id).jobs;
    hit.insert(jobs.begin(), jobs.end());
  }
  const auto end = [this](TaskEnd::Cause cause, auto on_node, JobEntry* job) {
    for (int rank = 0; rank < static_cast<int>(job->gang->tasks.size()); ++rank) {
      if (job->gang->ended(rank) || !on_node(job->gang->node(rank))) continue;
      EndTask(cause, "", rank, &*job->gang);
      TouchTask(*job, rank);
    }
    Touch(*job).gang = true;
    Advance(job);
  };
  for (const std::string& uid : hit) {
    JobEntry* const job = FindJob(uid);
    end(TaskEnd::CAUSE_LOST, [&](const NodeId& id) { return nodes.removed.count(id) > 0; }, job);
    if (!job->live()) continue;
    // The end on a silent Node may be long in coming.
    end(
        TaskEnd::CAUSE_STOPPED,
        [this](const NodeId& id) { return model_.nodes.at(id).state() == Node::STATE_ACTIVE; },
        job);
  }
  if (nodes.removed.empty()) return;
  room_changed_ = true;
  hopeless_.clear();
}

}  // namespace capstan::scheduler
