#include "services/cluster_manager/engine.h"

#include <utility>
#include <variant>

#include "libs/engine/core_loop.h"

namespace capstan::cluster_manager {
namespace {

constexpr absl::Duration kReloadDelay = absl::Seconds(1);

}  // namespace

Engine::Engine(HealthConfig config, store::Store* store, NodeRegistry* nodes, Strand* strand,
               Random random, log::Logger* logger)
    : config_(std::move(config)),
      store_(store),
      nodes_(nodes),
      strand_(strand),
      random_(random),
      logger_(logger) {}

Engine::~Engine() { strand_->Cancel(timer_); }

void Engine::Start(absl::AnyInvocable<void(absl::Status)> ready) {
  ready_ = std::move(ready);
  Read();
}

void Engine::Read() {
  engine::ReadAll(store_, kKeyPrefix,
                  [this, alive = std::weak_ptr<char>(alive_)](
                      absl::StatusOr<std::vector<store::KeyValue>> records) {
                    if (alive.expired()) return;
                    if (!records.ok()) return Reload(records.status());
                    core_ = std::make_unique<HealthCore>(config_);
                    for (const store::KeyValue& kv : *records) {
                      const absl::Status loaded = core_->Load(kv);
                      if (loaded.ok()) continue;
                      logger_->Error("stored record refused", {{"error", loaded}});
                      core_.reset();
                      if (ready_) std::exchange(ready_, nullptr)(loaded);
                      return;
                    }
                    Ready();
                  });
}

void Engine::Ready() {
  queue_ = std::make_unique<store::CommitQueue>(store_, strand_, absl::nullopt);
  const Now now = strand_->clock().Read();
  for (const auto& [name, node] : seen_) Take(core_->NodeSeen(node, random_.Uuid4(), now));
  if (synced_) Take(core_->Synced(now));
  if (!std::exchange(watching_, true)) Watch();
  if (ready_) std::exchange(ready_, nullptr)(absl::OkStatus());
}

void Engine::Watch() {
  NodeRegistry::Listener listener;
  listener.seen = [this](const capstan::scheduler::v1::Node& node) {
    seen_[node.name()] = node;
    if (core_ != nullptr) {
      Take(core_->NodeSeen(node, random_.Uuid4(), strand_->clock().Read()));
    }
  };
  listener.gone = [this](const std::string& name) {
    seen_.erase(name);
    if (core_ != nullptr) Take(core_->NodeGone(name));
  };
  listener.synced = [this] {
    synced_ = true;
    if (core_ != nullptr) Take(core_->Synced(strand_->clock().Read()));
  };
  listener.lost = [this] {
    synced_ = false;
    seen_.clear();
    if (core_ != nullptr) core_->WatchLost();
    Arm();
  };
  nodes_->Watch(std::move(listener));
}

void Engine::Reload(const absl::Status& why) {
  logger_->Warning("reading the store again", {{"error", why}});
  core_.reset();
  queue_.reset();
  Arm();
  strand_->RunAfter(kReloadDelay, [this, alive = std::weak_ptr<char>(alive_)] {
    if (!alive.expired()) Read();
  });
}

void Engine::Take(Step step) {
  queue_->Submit(
      std::move(step.puts), std::move(step.deletes),
      [this, after = std::move(step.after)](absl::StatusOr<int64_t> revision) {
        if (!revision.ok()) return Reload(revision.status());
        for (const Effect& effect : after) {
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
      });
  Arm();
}

void Engine::Arm() {
  strand_->Cancel(std::exchange(timer_, 0));
  if (core_ == nullptr) return;
  const absl::optional<BootTime> deadline = core_->NextDeadline();
  if (!deadline.has_value()) return;
  timer_ = strand_->RunAt(*deadline, [this] {
    timer_ = 0;
    if (core_ != nullptr) Take(core_->Tick(strand_->clock().Read()));
  });
}

}  // namespace capstan::cluster_manager
