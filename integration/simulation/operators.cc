#include "integration/simulation/operators.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/scheduler/core/keys.h"
#include "services/scheduler/core/records.pb.h"

namespace capstan::simulation {

using capstan::scheduler::records::v1::NodeRecord;
using capstan::scheduler::v1::Node;

Operators::Operators(Network* network, const MachineClock* clock,
                     std::vector<SchedulerActor*> schedulers, const SharedStore* store,
                     std::vector<Place> places)
    : Process(&network->world(), "operators", clock),
      network_(network),
      schedulers_(std::move(schedulers)),
      store_(store),
      places_(std::move(places)) {}

void Operators::Act(absl::Duration end) {
  Plan(end);
  // A cordon whose answer was lost may be there still, or come twice.
  Later(end + absl::Minutes(6), [this] {
    for (const Held& held : ever_) Uncordon(held);
  });
}

void Operators::Plan(absl::Duration end) {
  Later(world().random().Between(absl::Seconds(10), absl::Seconds(50)), [this, end] {
    if (world().now() >= end) return;
    if (world().random().OneIn(2)) {
      CordonForAWhile();
    } else {
      FindForAWhile();
    }
    Plan(end);
  });
}

void Operators::FindForAWhile() {
  Machine* const machine = places_[world().random().Below(places_.size())].machine;
  world().Fault("finding");
  world().Log(machine->name(), "is found wanting");
  machine->SetFinding(true);
  Later(world().random().Between(absl::Seconds(5), absl::Seconds(120)),
        [machine] { machine->SetFinding(false); });
}

void Operators::CordonForAWhile() {
  const Held held{places_[world().random().Below(places_.size())].id,
                  absl::StrCat("person/", 2000 + ever_.size())};
  ever_.insert(held);
  Cordon(held, world().random().Between(absl::Seconds(10), absl::Seconds(150)));
}

void Operators::Cordon(const Held& held, absl::Duration how_long) {
  ++open_;
  SchedulerActor* const scheduler = schedulers_[world().random().Below(schedulers_.size())];
  network_->Call<Node>(
      this, scheduler,
      [scheduler, held](auto reply) {
        scheduler->CordonNode(
            scheduler::CordonNode{0, held.node.cluster, held.node.node, held.owner, "simulated"},
            std::move(reply));
      },
      [this, held, how_long](const absl::StatusOr<Node>& cordoned) {
        --open_;
        if (cordoned.ok()) {
          held_.insert(held);
          Check();
          Later(how_long, [this, held] { Uncordon(held); });
        } else if (!absl::IsNotFound(cordoned.status())) {
          Later(absl::Seconds(2), [this, held, how_long] { Cordon(held, how_long); });
        }
      });
}

void Operators::Uncordon(const Held& held) {
  ++open_;
  held_.erase(held);
  SchedulerActor* const scheduler = schedulers_[world().random().Below(schedulers_.size())];
  network_->Call<Node>(
      this, scheduler,
      [scheduler, held](auto reply) {
        scheduler->UncordonNode(
            scheduler::UncordonNode{0, held.node.cluster, held.node.node, held.owner},
            std::move(reply));
      },
      [this, held](const absl::StatusOr<Node>& done) {
        --open_;
        if (done.ok() || absl::IsNotFound(done.status())) return;
        Later(absl::Seconds(2), [this, held] { Uncordon(held); });
      });
}

void Operators::Check() {
  for (const Held& held : held_) {
    const auto stored =
        store_->disk.records.find(scheduler::NodeKey(held.node.cluster, held.node.node));
    NodeRecord node;
    if (stored != store_->disk.records.end()) node.ParseFromString(stored->second);
    if (std::none_of(node.cordons().begin(), node.cordons().end(),
                     [&held](const auto& cordon) { return cordon.owner() == held.owner; })) {
      world().Violate(absl::StrCat("the cordon of ", held.node.Name(), " by ", held.owner,
                                   " is gone, and its owner has not taken it back"));
    }
  }
}

bool Operators::Idle(std::string* why) const {
  if (open_ != 0 || !held_.empty()) {
    *why = "operators wait for the scheduler";
    return false;
  }
  for (const Place& place : places_) {
    const auto stored =
        store_->disk.records.find(scheduler::NodeKey(place.id.cluster, place.id.node));
    NodeRecord node;
    if (stored == store_->disk.records.end() || !node.ParseFromString(stored->second)) continue;
    if (node.cordons_size() == 0) continue;
    *why = absl::StrCat(place.id.Name(), " is left cordoned by ", node.cordons(0).owner(), ": ",
                        node.cordons(0).reason());
    return false;
  }
  return true;
}

}  // namespace capstan::simulation
