#ifndef CAPSTAN_INTEGRATION_SIMULATION_BUYERS_H_
#define CAPSTAN_INTEGRATION_SIMULATION_BUYERS_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "integration/simulation/machine.h"
#include "integration/simulation/network.h"
#include "integration/simulation/placement_witness.h"
#include "integration/simulation/process.h"
#include "integration/simulation/scheduler_actor.h"
#include "integration/simulation/scheduler_caller.h"
#include "services/scheduler/core/events.h"
#include "services/scheduler/core/model.h"

namespace capstan::simulation {

// People who order Nodes for Jobs that wait, by name or class of demand: the Nodes come one after
// the other, which here are some that get the order's label for a while, and the order is taken
// back or expires.
class Buyers final : public SchedulerCaller {
 public:
  struct Place {
    scheduler::NodeId id;
    Machine* machine = nullptr;
  };
  Buyers(Network* network, const MachineClock* clock, std::vector<SchedulerActor*> schedulers,
         PlacementWitness* witness, std::vector<Place> places);

  // Until `end`, in true time; then every order is taken back and no Node is of any.
  void Act(absl::Duration end);

 private:
  void Plan(absl::Duration end);
  void OrderForSomebody();
  // Again and again until there is an answer.
  void Create(const scheduler::CreateCapacityOrder& create);
  void Delete(const std::string& order);
  // So many Nodes of the Cluster are the order's, for a while.
  void Deliver(const std::string& order, const std::string& cluster, int nodes);

  PlacementWitness* const witness_;
  const std::vector<Place> places_;
  absl::Duration end_;
  std::set<std::string> ever_;
};

}  // namespace capstan::simulation

#endif  // CAPSTAN_INTEGRATION_SIMULATION_BUYERS_H_
