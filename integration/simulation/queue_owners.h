#ifndef CAPSTAN_INTEGRATION_SIMULATION_QUEUE_OWNERS_H_
#define CAPSTAN_INTEGRATION_SIMULATION_QUEUE_OWNERS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "integration/simulation/network.h"
#include "integration/simulation/process.h"
#include "integration/simulation/queue_witness.h"
#include "integration/simulation/scheduler_actor.h"
#include "integration/simulation/scheduler_caller.h"
#include "proto/capstan/scheduler/v1/job_service.pb.h"
#include "proto/capstan/scheduler/v1/queue.pb.h"
#include "services/scheduler/core/events.h"

namespace capstan::simulation {

// People who make Queues with guarantees, limits, rates and a half-life, hold, drain and cordon
// them for a while, change their weights, and ask what would happen to Jobs.
class QueueOwners final : public SchedulerCaller {
 public:
  QueueOwners(Network* network, const MachineClock* clock, std::vector<SchedulerActor*> schedulers,
              QueueWitness* witness);

  // A Queue that keeps something of its guarantee to itself, takes Jobs that are not ended for
  // others, and lets the others be ended soon.
  static constexpr char kService[] = "queues/service";

  // Those that take Jobs, `queues/{queue}`; the first is there without anybody's making it.
  static const std::vector<std::string>& Leaves();

  // Makes the Queues, with what kService says or without; changes them until `end`, in true time;
  // then all are open.
  void Act(absl::Duration end, bool keeps_to_itself);

 private:
  void Plan(absl::Duration end);
  void CloseForAWhile(absl::Duration end);
  void AskWhatWouldHappen();
  // Again and again until there is an answer.
  void Create(const scheduler::CreateQueue& create);
  // The same, until `end`.
  void Update(const scheduler::UpdateQueue& update, absl::Duration end);
  void Open(const std::string& queue);
  const std::string& AnyQueue();

  QueueWitness* const witness_;
  std::vector<std::string> made_;
};

}  // namespace capstan::simulation

#endif  // CAPSTAN_INTEGRATION_SIMULATION_QUEUE_OWNERS_H_
