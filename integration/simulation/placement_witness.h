#ifndef CAPSTAN_INTEGRATION_SIMULATION_PLACEMENT_WITNESS_H_
#define CAPSTAN_INTEGRATION_SIMULATION_PLACEMENT_WITNESS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "integration/simulation/queue_witness.h"
#include "integration/simulation/scheduler_actor.h"
#include "integration/simulation/world.h"
#include "libs/time/clock.h"
#include "services/scheduler/core/events.h"
#include "services/scheduler/core/model.h"

namespace capstan::simulation {

// Reads along what each leading scheduler begins with, from the store, and all that it then decides
// to write, and judges each step by the leader's own clocks; no core is asked. Checks of
// maintenance windows and orders of capacity:
//  1. one that was acknowledged is stored, until somebody asks to take it back or it is over;
//  2. none is removed but because somebody asks, or since it is over;
//  3. no gang is placed on a Node in a window, or before one that begins before the gang's end, as
//     declared; nor on a Node that is kept for another gang, unless it is over before the Nodes of
//     the order are expected;
//  4. once a window that evicts has begun, no Task is wanted on its Nodes, and no gang is stopped
//     for maintenance where there is no such window;
//  5. who is nominated for ordered Nodes waits for them, and an order is used from when its nominee
//     was placed on any of its Nodes;
//  6. no gang is placed without anything that it needs, nor with a part of a section that it may be
//     without;
//  7. each Task of a gang is placed on a Node whose labels are as its Job and its TaskGroup require;
//  8. what QueueWitness says.
class PlacementWitness {
 public:
  PlacementWitness(World* world, const SharedStore* store)
      : world_(world), store_(store), queues_(world, SchedulerActor::kMinRuntime) {}

  // Just before anything of the step is stored or carried out.
  void SawStep(const SchedulerActor& who, const scheduler::Event& event, Now now,
               const scheduler::Step& step);

  QueueWitness& queues() { return queues_; }
  const QueueWitness& queues() const { return queues_; }

  void WindowAcknowledged(const std::string& cluster, const std::string& window);
  void WindowAskedBack(const std::string& cluster, const std::string& window);
  void OrderAcknowledged(const std::string& order);
  void OrderAskedBack(const std::string& order);

  // Times that a gang was stopped for a window, and orders whose nominee was placed on their Nodes.
  int64_t evictions() const { return static_cast<int64_t>(evicted_.size()); }
  int64_t orders_used() const { return static_cast<int64_t>(used_.size()); }
  // Gangs that were placed on a Node of which a window began later.
  int64_t placed_before() const { return placed_before_; }
  // Gangs that were placed and require something of labels.
  int64_t placed_by_labels() const { return placed_by_labels_; }
  // Sections that a gang may be without, which one that was placed had, or had not.
  int64_t sections_there() const { return sections_there_; }
  int64_t sections_left_out() const { return sections_left_out_; }

 private:
  using Windows =
      std::map<std::pair<std::string, std::string>, scheduler::rec::MaintenanceWindowRecord>;
  using Orders = std::map<std::string, scheduler::rec::CapacityOrderRecord>;
  // Gang that it is kept for, and the order.
  using Kept = std::map<scheduler::NodeId, std::pair<std::string, std::string>>;

  // What a leader has read and decided since.
  struct Term {
    scheduler::ModelBuilder builder;
    // Keys, for deletes of ranges.
    std::set<std::string> keys;
    std::map<std::string, int64_t> generations;  // by uid
    // When each order is void, by the leader's boot clock.
    std::map<std::string, BootTime> void_at;
    Kept kept;

    const scheduler::Model& model() const { return builder.model(); }
  };

  void Begin(const std::string& who, Now now);
  void Apply(const scheduler::Step& step, Term* term);
  void Resolve(Term* term);
  void JudgeRemovals(const Windows& windows, const Orders& orders, const scheduler::Event& event,
                     Now now, const Term& term);
  void JudgePlacement(const scheduler::JobEntry& job, Now now, const Kept& before,
                      const Term& term);
  void JudgeLabels(const scheduler::JobEntry& job, const Term& term);
  void JudgeStop(const scheduler::JobEntry& job, Now now, const Term& term);
  void JudgeWindowsThatLast(Now now, const Term& term);
  void JudgeNominees(const Term& term);
  static Kept KeptBy(const scheduler::Model& model);
  // What is acknowledged is on the store's disk.
  void CheckStored();
  void Acknowledged(const std::string& key);
  void Violate(const std::string& what) { world_->Violate(what); }

  World* const world_;
  const SharedStore* const store_;
  QueueWitness queues_;
  std::map<std::string, std::unique_ptr<Term>> terms_;  // by replica
  // Keys of windows and orders: acknowledged, and no more to be expected.
  std::set<std::string> acknowledged_;
  std::set<std::string> may_be_gone_;
  // Job and generation.
  std::set<std::pair<std::string, int64_t>> evicted_;
  std::set<std::string> used_;
  int64_t placed_before_ = 0;
  int64_t placed_by_labels_ = 0;
  int64_t sections_there_ = 0;
  int64_t sections_left_out_ = 0;
};

}  // namespace capstan::simulation

#endif  // CAPSTAN_INTEGRATION_SIMULATION_PLACEMENT_WITNESS_H_
