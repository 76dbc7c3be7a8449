// What simulations rest on.
#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_SIMULATED_STATE_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_SIMULATED_STATE_H_

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "proto/capstan/scheduler/v1/job_service.pb.h"
#include "services/scheduler/core/model.h"

namespace capstan::scheduler {

inline constexpr size_t kMaxSimulatedWaiting = 10'000;

// Of what is stored, what an answer rests on: Nodes, Queues, gangs that are and what waits for
// room. A value, to be taken to any thread.
struct SimulatedState {
  Model model;
  // Jobs that wait for room: those in the model, and those that were too many.
  int waiting = 0;
  int left_out = 0;
};

// With what the request's Jobs come after. O(what it takes): bytes are copied, none is unpacked;
// the rest is the simulation's.
SimulatedState StateForSimulation(const Model& model,
                                  const capstan::scheduler::v1::SimulatePlacementRequest& request);

// Copies the same, but for what Jobs come after, piece by piece, so that what is copied can change
// in between. What comes out is as of the last piece. For the thread of what is copied.
class StateCopy {
 public:
  // Goes on by so many Jobs, then by what has changed since their turn: true once nothing is left.
  // Given another model than before, it begins anew with that.
  bool Copy(const Model& model, size_t jobs);
  // To be told of all Jobs that change or leave between two pieces.
  void JobsChanged(const std::set<std::string>& uids);
  // Once Copy has said that all is there.
  SimulatedState Take() { return std::move(state_); }

 private:
  void Begin(const Model& model);
  // Whether the Job is one of those that are taken now.
  bool IsWanted(const Model& model, absl::string_view uid) const;

  SimulatedState state_;
  const Model* from_ = nullptr;
  std::vector<std::string> uids_;
  size_t next_ = 0;
  std::set<std::string> changed_;
  // Priority and submission of the last of those that wait; absent unless there were too many.
  absl::optional<std::pair<int32_t, int64_t>> last_;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_SIMULATED_STATE_H_
