#ifndef CAPSTAN_INTEGRATION_SIMULATION_HEALTH_ACTOR_H_
#define CAPSTAN_INTEGRATION_SIMULATION_HEALTH_ACTOR_H_

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "integration/simulation/mutants.h"
#include "integration/simulation/network.h"
#include "integration/simulation/process.h"
#include "integration/simulation/scheduler_actor.h"
#include "proto/capstan/clustermanager/v1/cluster.pb.h"
#include "proto/capstan/scheduler/v1/node.pb.h"
#include "services/cluster_manager/core/health_core.h"

namespace capstan::simulation {

// The cluster_manager: its real core, which looks at the leader's Nodes every other second. Checks
// at each look and act that
//  1. a Node that has its cordon has a stored verdict, and is UNHEALTHY by it when it is cordoned;
//  2. there is no stored verdict on a Node that the scheduler shows no more;
//  3. what `check` says, which is told of nothing else.
class HealthActor final : public Process {
 public:
  static constexpr char kOwner[] = "spiffe://capstan-00000000.local/svc/cluster_manager";

  HealthActor(Network* network, const MachineClock* clock, std::vector<SchedulerActor*> schedulers,
              std::function<void()> check, const Mutants* mutants);

  const Disk& disk() const { return disk_; }
  Disk* mutable_disk() { return &disk_; }
  int64_t cordons() const { return cordons_; }
  // The scheduler's list lacks the Node, `clusters/{c}/nodes/{n}`, or has it again: so it is after
  // somebody has taken it out of the store, until it reports.
  void Hide(const std::string& node) { hidden_.insert(node); }
  void Show(const std::string& node) { hidden_.erase(node); }
  void ShowAll() { hidden_.clear(); }

 protected:
  void OnStart() override;
  void OnCrash() override;
  void OnAlarm() override;

 private:
  void Look();
  void Seen(const std::vector<capstan::scheduler::v1::Node>& nodes);
  // Those of the look before that this one lacks.
  void FindGone(const std::vector<capstan::scheduler::v1::Node>& nodes);
  void Take(cluster_manager::Step step);
  void CarryOut(const cluster_manager::Effect& effect);
  absl::optional<capstan::clustermanager::v1::NodeVerdict> Verdict(const std::string& node) const;

  Network* const network_;
  const std::vector<SchedulerActor*> schedulers_;
  const std::function<void()> check_;
  const Mutants* const mutants_;
  Disk disk_;
  std::set<std::string> hidden_;
  // Ever found to be gone: their cordons may have outlived the verdicts.
  std::set<std::string> gone_;
  size_t asked_ = 0;
  int64_t cordons_ = 0;
  // Of this life.
  std::unique_ptr<cluster_manager::HealthCore> core_;
  std::unique_ptr<CommitPipe> pipe_;
  bool synced_ = false;
  // The latest look.
  std::vector<capstan::scheduler::v1::Node> nodes_;
};

}  // namespace capstan::simulation

#endif  // CAPSTAN_INTEGRATION_SIMULATION_HEALTH_ACTOR_H_
