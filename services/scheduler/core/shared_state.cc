#include "services/scheduler/core/shared_state.h"

#include <utility>

namespace capstan::scheduler {

using capstan::scheduler::v1::JobSpec;
using capstan::scheduler::v1::SimulatePlacementRequest;

SharedState::SharedState(SimulatedState state, const Model& model,
                         const std::vector<SimulatePlacementRequest>& requests)
    : state_(std::move(state)), others_(state_.model.jobs.pool()) {
  for (const SimulatePlacementRequest& request : requests) {
    for (const JobSpec& spec : request.jobs()) {
      for (const auto& dependency : spec.after()) {
        const JobEntry* const job = model.FindJobByName(dependency.job());
        if (job == nullptr || state_.model.jobs.count(job->uid()) > 0) continue;
        if (others_.count(job->uid()) == 0) others_.Adopt(model.jobs, job->uid());
      }
    }
  }
  others_.Rest();
}

SimulatedState SharedState::For(const SimulatePlacementRequest& request) const {
  SimulatedState state;
  state.model = state_.model.Copy();
  state.waiting = state_.waiting;
  state.left_out = state_.left_out;
  AddTo(&state, request);
  return state;
}

SimulatedState SharedState::TakeFor(const SimulatePlacementRequest& request) {
  SimulatedState state = std::move(state_);
  AddTo(&state, request);
  return state;
}

void SharedState::AddTo(SimulatedState* state, const SimulatePlacementRequest& request) const {
  JobTable& jobs = state->model.jobs;
  for (const JobSpec& spec : request.jobs()) {
    for (const auto& dependency : spec.after()) {
      const JobEntry* const job = others_.FindByName(dependency.job());
      if (job != nullptr && jobs.count(job->uid()) == 0) jobs.Adopt(others_, job->uid());
    }
  }
  jobs.Rest();
}

}  // namespace capstan::scheduler
