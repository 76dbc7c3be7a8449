#ifndef CAPSTAN_INTEGRATION_SIMULATION_MAINTAINERS_H_
#define CAPSTAN_INTEGRATION_SIMULATION_MAINTAINERS_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "integration/simulation/network.h"
#include "integration/simulation/placement_witness.h"
#include "integration/simulation/process.h"
#include "integration/simulation/scheduler_actor.h"
#include "integration/simulation/scheduler_caller.h"
#include "services/scheduler/core/events.h"
#include "services/scheduler/core/model.h"

namespace capstan::simulation {

// People who plan maintenance of Nodes: they make windows of one Node, of a row (label kRowLabel)
// or of a Cluster, soon or later, with and without evicting, make others in their stead, and call
// them off or let them pass.
class Maintainers final : public SchedulerCaller {
 public:
  static constexpr char kRowLabel[] = "simulated/row";

  // `nodes` have rows `a` and `b`.
  Maintainers(Network* network, const MachineClock* clock, std::vector<SchedulerActor*> schedulers,
              PlacementWitness* witness, std::vector<scheduler::NodeId> nodes);

  // Until `end`, in true time; then every window is called off.
  void Act(absl::Duration end);

 private:
  struct Window {
    std::string cluster;
    std::string id;
    friend auto operator<=>(const Window&, const Window&) = default;
  };

  void Plan(absl::Duration end);
  scheduler::CreateMaintenanceWindow AnyWindow();
  // Again and again until there is an answer.
  void Create(const scheduler::CreateMaintenanceWindow& create);
  void Delete(const Window& window);

  PlacementWitness* const witness_;
  const std::vector<scheduler::NodeId> nodes_;
  // Acknowledged, and not called off.
  std::set<Window> held_;
  std::set<Window> ever_;
};

}  // namespace capstan::simulation

#endif  // CAPSTAN_INTEGRATION_SIMULATION_MAINTAINERS_H_
