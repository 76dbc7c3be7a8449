#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_WHAT_IF_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_WHAT_IF_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "libs/status/error.h"
#include "libs/time/clock.h"
#include "proto/capstan/scheduler/v1/job_service.pb.h"
#include "services/scheduler/core/core_config.h"
#include "services/scheduler/core/model.h"

namespace capstan::scheduler {

inline constexpr int kMaxSimulatedJobs = 10;
inline constexpr int kMaxSimulatedNodes = 100;
inline constexpr size_t kMaxSimulatedWaiting = 10'000;

// Fills in what the Jobs leave out; before all that follows. The parent is good.
capstan::scheduler::v1::SimulatePlacementRequest WithDefaults(
    const CoreConfig& config, capstan::scheduler::v1::SimulatePlacementRequest request);

// Adds everything that is wrong with the request whatever is stored.
void ValidateSimulatePlacement(const CoreConfig& config,
                               const capstan::scheduler::v1::SimulatePlacementRequest& request,
                               status::FieldErrors* errors);

// Of what is stored, what an answer rests on: Nodes, Queues, gangs that are, what waits for room
// and what the request's Jobs come after. A value, to be taken to any thread.
struct SimulatedState {
  Model model;
  // Jobs that wait for room: those in the model, and those that were too many.
  int waiting = 0;
  int left_out = 0;
};
// O(what it takes): bytes are copied, none is unpacked; the rest is SimulatePlacement's.
SimulatedState StateForSimulation(const Model& model,
                                  const capstan::scheduler::v1::SimulatePlacementRequest& request);

// What would happen if the Nodes changed now and `submitter` then submitted the Jobs: lets a core
// of its own, made from `state`, take the events and looks at what became of it. So each answer is
// what the rounds of a leader would come to, but for what is not stored:
// - counts of rates, taken as full but where a Job waits for a rate, which then is used up;
// - that the leader suspects its own sight, and so ends nobody;
// - that an executor's session has just ended, or that a round is under way;
// - uids of Jobs to come, which decide between victims that are equal otherwise.
// INVALID_ARGUMENT with the fields that are wrong with what is stored. Pure; of no core but its
// own. That core is left in `remains`, if given, since to take it apart is a good part of the work
// and may follow the answer.
absl::StatusOr<capstan::scheduler::v1::SimulatePlacementResponse> SimulatePlacement(
    const CoreConfig& config, SimulatedState state,
    const capstan::scheduler::v1::SimulatePlacementRequest& request, const std::string& submitter,
    const Now& now, std::shared_ptr<const void>* remains = nullptr);

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_WHAT_IF_H_
