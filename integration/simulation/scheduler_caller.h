#ifndef CAPSTAN_INTEGRATION_SIMULATION_SCHEDULER_CALLER_H_
#define CAPSTAN_INTEGRATION_SIMULATION_SCHEDULER_CALLER_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "integration/simulation/network.h"
#include "integration/simulation/process.h"
#include "integration/simulation/scheduler_actor.h"

namespace capstan::simulation {

// People who call schedulers. Keeps nothing that a crash could take, and never crashes.
class SchedulerCaller : public Process {
 public:
  SchedulerCaller(Network* network, std::string name, const MachineClock* clock,
                  std::vector<SchedulerActor*> schedulers)
      : Process(&network->world(), std::move(name), clock),
        network_(network),
        schedulers_(std::move(schedulers)) {}

  // Whether all that was asked is answered.
  bool Idle() const { return open_ == 0; }

 protected:
  void OnStart() override {}
  void OnCrash() override {}
  void OnAlarm() override {}

  // Whether a call that ended so may or may not have taken effect.
  static bool Unknown(const absl::Status& status) {
    return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
  }
  Network& network() { return *network_; }
  SchedulerActor* AnyScheduler() { return schedulers_[world().random().Below(schedulers_.size())]; }
  // Counts what is asked, and what has its answer.
  void Asked() { ++open_; }
  void Answered() { --open_; }

 private:
  Network* const network_;
  const std::vector<SchedulerActor*> schedulers_;
  int64_t open_ = 0;
};

}  // namespace capstan::simulation

#endif  // CAPSTAN_INTEGRATION_SIMULATION_SCHEDULER_CALLER_H_
