#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_SHARED_STATE_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_SHARED_STATE_H_

#include <vector>

#include "proto/capstan/scheduler/v1/job_service.pb.h"
#include "services/scheduler/core/model.h"
#include "services/scheduler/core/simulated_state.h"

namespace capstan::scheduler {

// One state that several simulations rest on, each of a request of its own. A value, to be taken to
// any thread; for one at a time, and so are all the states that it gives, with which it shares what
// Jobs are packed in.
class SharedState {
 public:
  // `state` is a copy of `model` as that is now. What the requests' Jobs come after is taken from
  // there too. On the thread of `model`.
  SharedState(SimulatedState state, const Model& model,
              const std::vector<capstan::scheduler::v1::SimulatePlacementRequest>& requests);

  // What StateForSimulation would have given for one of the requests. O(Nodes and Jobs), of which
  // none is unpacked.
  SimulatedState For(const capstan::scheduler::v1::SimulatePlacementRequest& request) const;
  // The same, for the last one.
  SimulatedState TakeFor(const capstan::scheduler::v1::SimulatePlacementRequest& request);

 private:
  void AddTo(SimulatedState* state,
             const capstan::scheduler::v1::SimulatePlacementRequest& request) const;

  SimulatedState state_;
  // What Jobs of the requests come after, but for what is in `state_`.
  JobTable others_;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_SHARED_STATE_H_
