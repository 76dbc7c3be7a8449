#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_WHAT_IF_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_WHAT_IF_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "libs/status/error.h"
#include "libs/time/clock.h"
#include "proto/capstan/scheduler/v1/job_service.pb.h"
#include "services/scheduler/core/core_config.h"
#include "services/scheduler/core/simulated_state.h"

namespace capstan::scheduler {

inline constexpr int kMaxSimulatedJobs = 10;
inline constexpr int kMaxSimulatedNodes = 100;

// Fills in what the Jobs leave out; before all that follows. The parent is good.
capstan::scheduler::v1::SimulatePlacementRequest WithDefaults(
    const CoreConfig& config, capstan::scheduler::v1::SimulatePlacementRequest request);

// Adds everything that is wrong with the request whatever is stored.
void ValidateSimulatePlacement(const CoreConfig& config,
                               const capstan::scheduler::v1::SimulatePlacementRequest& request,
                               status::FieldErrors* errors);

// What would happen if the Nodes changed and `submitter` then submitted the Jobs: lets a core of its
// own, made from stored state, take the events and looks at what became of it. So each answer is
// what the rounds of a leader would come to, but for what is not stored:
// - counts of rates, taken as full but where a Job waits for a rate, which then is used up;
// - that the leader suspects its own sight, and so ends nobody;
// - that an executor's session has just ended, or that a round is under way;
// - uids of Jobs to come, which decide between victims that are equal otherwise.
// Pure; of no core but its own. For any thread, one at a time.
class Simulation {
 public:
  // Has what happens anyway happen, at `now`, which is then the time of all that follows. That is
  // most of the work, and knows nothing of a request.
  Simulation(const CoreConfig& config, SimulatedState state, const Now& now);
  // To take the core apart is a good part of the work too.
  ~Simulation();
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;

  // Once. INVALID_ARGUMENT with the fields that are wrong with what is stored.
  absl::StatusOr<capstan::scheduler::v1::SimulatePlacementResponse> Run(
      const capstan::scheduler::v1::SimulatePlacementRequest& request,
      const std::string& submitter);

 private:
  class Course;
  const std::unique_ptr<Course> course_;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_WHAT_IF_H_
