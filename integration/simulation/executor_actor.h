#ifndef CAPSTAN_INTEGRATION_SIMULATION_EXECUTOR_ACTOR_H_
#define CAPSTAN_INTEGRATION_SIMULATION_EXECUTOR_ACTOR_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "integration/simulation/mutants.h"
#include "integration/simulation/network.h"
#include "integration/simulation/process.h"
#include "integration/simulation/scheduler_actor.h"
#include "services/executor/core/executor_core.h"

namespace capstan::simulation {

// An executor: its real core between the schedulers and the agents of its Cluster.
class ExecutorActor final : public Process {
 public:
  ExecutorActor(Network* network, const MachineClock* clock, std::string cluster,
                std::vector<SchedulerActor*> schedulers, const Mutants* mutants);

  // An agent dials.
  Network::UpperEnd Accept(const std::string& node, std::shared_ptr<Pipe> pipe);

  // While it is down: its disk is replaced by an empty one.
  void LoseStore() {
    disk_.records.clear();
    disk_.revision = 0;
  }

  const executor::ExecutorCore* core() const { return core_.get(); }
  const Disk& disk() const { return disk_; }
  Disk* mutable_disk() { return &disk_; }

 protected:
  void OnStart() override;
  void OnCrash() override;
  void OnAlarm() override;

 private:
  void Apply(const executor::Event& event);
  void CarryOut(const executor::Effect& effect);
  void Dial();
  void Redial();

  Network* const network_;
  const std::string cluster_;
  const std::vector<SchedulerActor*> schedulers_;
  const Mutants* const mutants_;
  Disk disk_;
  executor::SessionId next_session_ = 1;
  // Of this life.
  std::unique_ptr<executor::ExecutorCore> core_;
  std::unique_ptr<CommitPipe> pipe_;
  std::shared_ptr<Pipe> up_;
  executor::SessionId up_session_ = 0;
  std::map<executor::SessionId, std::shared_ptr<Pipe>> agents_;
};

}  // namespace capstan::simulation

#endif  // CAPSTAN_INTEGRATION_SIMULATION_EXECUTOR_ACTOR_H_
