#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_ROUND_ROUND_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_ROUND_ROUND_H_

#include <cstdint>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "services/scheduler/core/round/backfill.h"
#include "services/scheduler/core/round/budgets.h"
#include "services/scheduler/core/round/fleet.h"
#include "services/scheduler/core/round/preemption.h"
#include "services/scheduler/core/round/reasons.h"
#include "services/scheduler/core/round/workspace.h"

namespace capstan::scheduler::round {

struct RoundOptions {
  bool backfill = true;
  bool preemption = true;
  // Elastic gangs take room that nobody else could use.
  bool growth = true;
  // What a gang that declares no duration is taken to run for.
  absl::Duration assumed_duration = absl::Hours(24);
  PreemptionLimits preemption_limits;
  // Searches for victims in one round.
  int max_preemption_searches = 16;
  // Gangs that are tried in vain, and shapes that reasons are worked out for, in one round: the
  // rest is kNotTried until the next. A bound in work, not in time, so that a round can be run
  // again.
  int max_failed_placements = 2000;
};

struct RoundInput {
  std::shared_ptr<const Snapshot> snapshot;
  // Gangs that wait, in the order of their claims. Those that do not wait any more are passed over.
  absl::Span<const GangIndex> order;
  Budgets budgets;
  uint64_t seed = 0;
  absl::Time now;
};

struct Start {
  GangIndex gang = 0;
  std::vector<TaskRun> runs;
};

struct Wait {
  GangIndex gang = 0;
  // Position in Proposal::reasons.
  uint32_t reason = 0;
};

// What a round would do. Starts and preemptions are all possible together.
struct Proposal {
  uint64_t version = 0;
  std::vector<Start> starts;
  std::vector<Preemption> preemptions;
  // More tasks for gangs that run or have just been started.
  std::vector<Start> growths;
  // For the first gang that had to be left waiting for room.
  absl::optional<Reservation> reservation;
  std::vector<Reason> reasons;
  // Every gang of `order` that waits on.
  std::vector<Wait> waits;
};

// Runs rounds. A round is a pure function of its input and options; what the object keeps between
// rounds only saves work. For one thread.
class Round {
 public:
  explicit Round(const RoundOptions& options) : options_(options) {}

  // In order: each gang starts if quota and room allow; else makes room by preemption if it may;
  // the first that waits for room gets a reservation, and gangs after it start only if they end
  // before it or leave it what it needs. Then elastic gangs grow.
  Proposal Run(RoundInput input);

 private:
  struct Failure {
    // Value of `epoch_` in the round when the shape failed: within one, room only gets less.
    uint64_t epoch = 0;
    uint32_t reason = 0;
  };

  void Begin(RoundInput input);
  void Consider(GangIndex gang);
  bool TryStart(GangIndex gang, Plane plane);
  // Cheap, and false for most: whether looking for victims could help.
  bool MayPreempt(const Gang& gang) const;
  bool TryPreempt(GangIndex gang, Plane plane);
  void TryReserve(GangIndex gang);
  void GrowElastic();
  void GrowOne(GangIndex gang, const std::vector<TaskRun>& runs);
  void KeepWaiting(GangIndex gang, uint32_t reason);
  uint32_t AddReason(Reason reason);
  uint32_t QuotaReason(const Budgets::Refusal& refusal);
  Plane PlaneOf(const Gang& gang) const;
  Failure& FailureOf(ShapeId shape, Plane plane);

  const RoundOptions options_;
  Workspace workspace_;
  // Of the round that runs.
  RoundInput input_;
  Proposal proposal_;
  absl::optional<GangPlacer> placer_;
  // By shape and plane.
  std::vector<Failure> failures_;
  uint64_t epoch_ = 0;
  int failed_placements_ = 0;
  int preemption_searches_ = 0;
  int reservation_searches_ = 0;
  absl::flat_hash_set<GangIndex> victims_;
  // Shape, queue and priority of gangs that no victims were found for.
  absl::flat_hash_set<std::tuple<ShapeId, QueueId, int32_t>> vain_preemptors_;
  absl::flat_hash_map<std::pair<QueueId, Dimension>, uint32_t> quota_reasons_;
  int32_t lowest_victim_priority_ = 0;
  absl::optional<uint32_t> not_tried_;
};

}  // namespace capstan::scheduler::round

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_ROUND_ROUND_H_
