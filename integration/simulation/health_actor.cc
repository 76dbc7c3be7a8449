#include "integration/simulation/health_actor.h"

#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace capstan::simulation {

using capstan::clustermanager::v1::NodeVerdict;
using capstan::scheduler::v1::Node;

namespace {

// `clusters/{c}/nodes/{n}`.
std::pair<std::string, std::string> Parts(const std::string& name) {
  const std::vector<std::string> parts = absl::StrSplit(name, '/');
  return {parts.at(1), parts.at(3)};
}

}  // namespace

HealthActor::HealthActor(Network* network, const MachineClock* clock,
                         std::vector<SchedulerActor*> schedulers, std::function<void()> check,
                         const Mutants* mutants)
    : Process(&network->world(), "cluster-manager", clock),
      network_(network),
      schedulers_(std::move(schedulers)),
      check_(std::move(check)),
      mutants_(mutants) {}

void HealthActor::OnStart() {
  cluster_manager::HealthConfig config;
  config.owner = kOwner;
  core_ = std::make_unique<cluster_manager::HealthCore>(config);
  for (const store::KeyValue& kv : disk_.Read()) {
    if (!core_->Load(kv).ok()) world().Violate("cluster-manager: a record can't be loaded");
  }
  pipe_ = std::make_unique<CommitPipe>(this, &disk_, CommitPipe::Options{});
  Look();
}

void HealthActor::OnCrash() {
  pipe_->Crash();
  pipe_.reset();
  core_.reset();
  synced_ = false;
  nodes_.clear();
}

void HealthActor::OnAlarm() { Take(core_->Tick(Read())); }

void HealthActor::Look() {
  SchedulerActor* const scheduler = schedulers_[asked_ % schedulers_.size()];
  network_->Call<std::vector<Node>>(
      this, scheduler, [scheduler](const auto& reply) { reply(scheduler->Nodes()); },
      [this](const absl::StatusOr<std::vector<Node>>& nodes) {
        if (nodes.ok()) {
          std::vector<Node> shown;
          for (const Node& node : *nodes) {
            if (hidden_.count(node.name()) == 0) {
              shown.push_back(node);
            } else {
              // A life that has just begun misses it too, though none before it did.
              gone_.insert(node.name());
            }
          }
          Seen(shown);
        } else {
          // The other one may lead.
          ++asked_;
          synced_ = false;
          core_->WatchLost();
          SetAlarm(core_->NextDeadline());
        }
        Later(absl::Seconds(2), [this] { Look(); });
      });
}

absl::optional<NodeVerdict> HealthActor::Verdict(const std::string& node) const {
  const auto stored = disk_.records.find(cluster_manager::VerdictKey(node));
  cluster_manager::VerdictRecord record;
  if (stored == disk_.records.end() || !record.ParseFromString(stored->second)) {
    return absl::nullopt;
  }
  return record.verdict();
}

void HealthActor::Seen(const std::vector<Node>& nodes) {
  check_();
  FindGone(nodes);
  nodes_ = nodes;
  for (const Node& node : nodes) {
    for (const auto& cordon : node.cordons()) {
      if (cordon.owner() == kOwner && !Verdict(node.name()).has_value() &&
          gone_.count(node.name()) == 0) {
        world().Violate(absl::StrCat(node.name(), " is cordoned without a stored verdict"));
      }
    }
    Take(core_->NodeSeen(node, world().random().Uuid4(), Read()));
  }
  if (!std::exchange(synced_, true)) Take(core_->Synced(Read()));
}

void HealthActor::FindGone(const std::vector<Node>& nodes) {
  std::set<std::string> there;
  for (const Node& node : nodes) there.insert(node.name());
  for (const Node& node : nodes_) {
    if (there.count(node.name()) != 0) continue;
    world().Log(name(), absl::StrCat("misses ", node.name()));
    world().Fault("node gone");
    if (!mutants_->cluster_manager_keeps_gone) Take(core_->NodeGone(node.name()));
    // What it has seen since is behind this.
    pipe_->Submit({}, {}, [this, gone = node.name()](int64_t) {
      if (!Verdict(gone).has_value()) return;
      world().Violate(absl::StrCat("there is a verdict on ", gone, ", which is gone"));
    });
  }
}

void HealthActor::Take(cluster_manager::Step step) {
  pipe_->Submit(std::move(step.puts), std::move(step.deletes),
                [this, my_life = life(), after = std::move(step.after)](int64_t) {
                  for (const cluster_manager::Effect& effect : after) {
                    if (up() && life() == my_life) CarryOut(effect);
                  }
                });
  SetAlarm(core_->NextDeadline());
}

void HealthActor::CarryOut(const cluster_manager::Effect& effect) {
  std::vector<scheduler::Event> calls;
  if (const auto* cordon = std::get_if<cluster_manager::CordonNode>(&effect)) {
    world().Log(name(), absl::StrCat("cordons ", cordon->node));
    world().Fault("cordon");
    ++cordons_;
    const absl::optional<NodeVerdict> verdict = Verdict(cordon->node);
    if (!verdict.has_value() || verdict->health() != NodeVerdict::HEALTH_UNHEALTHY) {
      world().Violate(absl::StrCat(cordon->node, " is cordoned and not found unhealthy"));
    }
    const auto [cluster, node] = Parts(cordon->node);
    calls.push_back(scheduler::CordonNode{0, cluster, node, kOwner, cordon->reason});
  } else {
    const std::string& name = std::get<cluster_manager::UncordonNode>(effect).node;
    world().Log(this->name(), absl::StrCat("uncordons ", name));
    const auto [cluster, node] = Parts(name);
    calls.push_back(scheduler::UncordonNode{0, cluster, node, kOwner});
    for (const Node& seen : nodes_) {
      if (seen.name() != name || !mutants_->cluster_manager_uncordons_all) continue;
      for (const auto& cordon : seen.cordons()) {
        calls.push_back(scheduler::UncordonNode{0, cluster, node, cordon.owner()});
      }
    }
  }
  SchedulerActor* const scheduler = schedulers_[asked_ % schedulers_.size()];
  for (const scheduler::Event& call : calls) {
    network_->Call<bool>(
        this, scheduler, [scheduler, call](const auto& reply) { reply(scheduler->Tell(call)); },
        [this](const absl::StatusOr<bool>&) { check_(); });
  }
}

}  // namespace capstan::simulation
