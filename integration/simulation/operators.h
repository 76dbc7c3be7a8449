#ifndef CAPSTAN_INTEGRATION_SIMULATION_OPERATORS_H_
#define CAPSTAN_INTEGRATION_SIMULATION_OPERATORS_H_

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "integration/simulation/machine.h"
#include "integration/simulation/network.h"
#include "integration/simulation/process.h"
#include "integration/simulation/scheduler_actor.h"
#include "services/scheduler/core/model.h"

namespace capstan::simulation {

// People who cordon Nodes for a while, each time under another name, and hardware that is found
// wanting for a while. Never crashes.
class Operators final : public Process {
 public:
  struct Place {
    scheduler::NodeId id;
    Machine* machine = nullptr;
  };
  Operators(Network* network, const MachineClock* clock, std::vector<SchedulerActor*> schedulers,
            const SharedStore* store, std::vector<Place> places);

  // Until `end`, in true time; then every cordon is taken back and every finding is gone.
  void Act(absl::Duration end);
  // An acknowledged cordon that nobody has asked to take back is stored.
  void Check();
  // Whether no cordon is stored, of whomever, and none is on its way.
  bool Idle(std::string* why) const;

 protected:
  void OnStart() override {}
  void OnCrash() override {}
  void OnAlarm() override {}

 private:
  struct Held {
    scheduler::NodeId node;
    std::string owner;
    friend auto operator<=>(const Held&, const Held&) = default;
  };
  void Plan(absl::Duration end);
  void CordonForAWhile();
  void Cordon(const Held& held, absl::Duration how_long);
  void Uncordon(const Held& held);
  void FindForAWhile();

  Network* const network_;
  const std::vector<SchedulerActor*> schedulers_;
  const SharedStore* const store_;
  const std::vector<Place> places_;
  // Acknowledged.
  std::set<Held> held_;
  std::set<Held> ever_;
  int64_t open_ = 0;
};

}  // namespace capstan::simulation

#endif  // CAPSTAN_INTEGRATION_SIMULATION_OPERATORS_H_
