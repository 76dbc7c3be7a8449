#include "services/cluster_manager/engine.h"

#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "libs/crash_point/crash_point.h"
#include "libs/crash_point/points.h"
#include "libs/engine/core_loop.h"
#include "libs/engine/submit_in_pieces.h"
#include "libs/store/shard_choice.h"

namespace capstan::cluster_manager {
namespace {

// More than there are replicas, so that each gets about the same; every replica must be told the
// same number, so it is no setting.
constexpr int kShards = 16;
constexpr absl::Duration kLeaseMargin = absl::Milliseconds(400);

store::Shards::Options ShardOptions(const EngineConfig& config) {
  store::Shards::Options options;
  options.prefix = absl::StrCat(kKeyPrefix, "shards/");
  options.member = config.member;
  options.count = kShards;
  options.ttl = config.lease_ttl;
  options.margin = kLeaseMargin;
  options.sole_owner = config.sole_owner;
  return options;
}

}  // namespace

Engine::Engine(EngineConfig config, store::Store* store, NodeRegistry* nodes, Strand* strand,
               Random random, log::Logger* logger, metrics::Registry* metrics)
    : config_(std::move(config)),
      store_(store),
      nodes_(nodes),
      strand_(strand),
      random_(random),
      logger_(logger),
      shards_led_(metrics->AddGauge(
          "shards_led", absl::StrCat("Of ", kShards, " shards of the Clusters, those led here."))),
      shards_(store, strand, ShardOptions(config_)) {}

Engine::~Engine() {
  for (const auto& [number, shard] : led_) strand_->Cancel(shard->timer);
}

void Engine::Start() {
  Watch();
  shards_.Start(
      {.on_gained = [this](int number, const store::Leadership& term) { Gained(number, term); },
       .on_lost = [this](int number, const absl::Status& why) { Lost(number, why); }});
}

void Engine::Resign(absl::AnyInvocable<void(absl::Status)> done) {
  shards_.Resign(std::move(done));
}

void Engine::Gained(int number, const store::Leadership& term) {
  std::unique_ptr<Shard>& shard = led_[number];
  shard = std::make_unique<Shard>();
  shard->number = number;
  shard->guard = term.Guard();
  shards_led_.Set(static_cast<double>(led_.size()));
  engine::ReadAll(store_, kKeyPrefix,
                  [this, shard = shard.get(), alive = std::weak_ptr<char>(shard->alive)](
                      const absl::StatusOr<std::vector<store::KeyValue>>& records) {
                    if (alive.expired()) return;
                    if (!records.ok()) return shards_.StepDown(shard->number, records.status());
                    Loaded(*shard, *records);
                  });
}

void Engine::Lost(int number, const absl::Status& why) {
  logger_->Info("shard given up", {{"shard", number}, {"error", why}});
  strand_->Cancel(led_.at(number)->timer);
  led_.erase(number);
  shards_led_.Set(static_cast<double>(led_.size()));
}

void Engine::Loaded(Shard& shard, const std::vector<store::KeyValue>& records) {
  auto core = std::make_unique<HealthCore>(config_.health);
  for (const store::KeyValue& kv : records) {
    const std::string cluster = ClusterOfKey(kv.key);
    if (cluster.empty() || store::ShardOf(cluster, kShards) != shard.number) continue;
    const absl::Status loaded = core->Load(kv);
    if (loaded.ok()) continue;
    // For an operator to look at; meanwhile nobody judges the shard's Nodes.
    logger_->Error("stored record refused", {{"error", loaded}});
    return shards_.StepDown(shard.number, loaded);
  }
  shard.core = std::move(core);
  shard.queue = std::make_unique<store::CommitQueue>(store_, strand_, shard.guard);
  const Now now = strand_->clock().Read();
  for (const auto& [name, node] : seen_) {
    if (ShardOf(name) == &shard) Take(shard, shard.core->NodeSeen(node, random_.Uuid4(), now));
  }
  if (synced_) Take(shard, shard.core->Synced(now));
}

Engine::Shard* Engine::ShardOf(const std::string& node) {
  const auto led = led_.find(store::ShardOf(ClusterOf(node), kShards));
  return led == led_.end() || led->second->core == nullptr ? nullptr : led->second.get();
}

void Engine::Watch() {
  NodeRegistry::Listener listener;
  listener.seen = [this](const capstan::scheduler::v1::Node& node) {
    seen_[node.name()] = node;
    if (Shard* shard = ShardOf(node.name())) {
      Take(*shard, shard->core->NodeSeen(node, random_.Uuid4(), strand_->clock().Read()));
    }
  };
  listener.gone = [this](const std::string& name) {
    seen_.erase(name);
    if (Shard* shard = ShardOf(name)) Take(*shard, shard->core->NodeGone(name));
  };
  listener.synced = [this] {
    synced_ = true;
    for (const auto& [number, shard] : led_) {
      if (shard->core != nullptr) Take(*shard, shard->core->Synced(strand_->clock().Read()));
    }
  };
  listener.lost = [this] {
    synced_ = false;
    seen_.clear();
    for (const auto& [number, shard] : led_) {
      if (shard->core == nullptr) continue;
      shard->core->WatchLost();
      Arm(*shard);
    }
  };
  nodes_->Watch(std::move(listener));
}

void Engine::Take(Shard& shard, Step step) {
  // A whole Cluster may fall ill, or go, at once.
  engine::SubmitInPieces(*shard.queue, std::move(step.puts), std::move(step.deletes),
                         [this, number = shard.number,
                          after = std::move(step.after)](const absl::StatusOr<int64_t>& revision) {
                           // Destroys the queue, and with it the callbacks behind this one.
                           if (!revision.ok()) return shards_.StepDown(number, revision.status());
                           CrashPoint(crash::kClusterManagerStored);
                           for (const Effect& effect : after) CarryOut(effect);
                         });
  Arm(shard);
}

void Engine::CarryOut(const Effect& effect) {
  const auto report = [this, alive = std::weak_ptr<char>(alive_)](absl::Status done) {
    if (!alive.expired() && !done.ok()) {
      logger_->Warning("node not changed; trying again", {{"error", done}});
    }
  };
  if (const auto* cordon = std::get_if<CordonNode>(&effect)) {
    logger_->Info("cordoning node", {{"node", cordon->node}, {"reason", cordon->reason}});
    nodes_->Cordon(cordon->node, cordon->reason, report);
  } else {
    const std::string& node = std::get<UncordonNode>(effect).node;
    logger_->Info("uncordoning node", {{"node", node}});
    nodes_->Uncordon(node, report);
  }
}

void Engine::Arm(Shard& shard) {
  strand_->Cancel(std::exchange(shard.timer, 0));
  const absl::optional<BootTime> deadline = shard.core->NextDeadline();
  if (!deadline.has_value()) return;
  shard.timer = strand_->RunAt(*deadline, [this, shard = &shard] {
    shard->timer = 0;
    Take(*shard, shard->core->Tick(strand_->clock().Read()));
  });
}

}  // namespace capstan::cluster_manager
