#ifndef CAPSTAN_LIBS_MIG_REPARTITION_H_
#define CAPSTAN_LIBS_MIG_REPARTITION_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "libs/mig/packing.h"

namespace capstan::mig {

// Holder of an instance that no Task uses.
inline constexpr int kNobody = -1;

// An instance that exists.
struct Instance {
  Choice place;
  // Index of the gang one of whose Tasks uses it, or kNobody.
  int holder = kNobody;
};

// A gang that holds instances, on one GPU or on several. It is stopped whole or not at all. Costs
// are >= 0, in one unit of the caller's: GPU time of work that is lost since the last checkpoint.
struct HoldingGang {
  // Of stopping it and starting it at once, elsewhere or in place; absent if it must not be.
  absl::optional<int64_t> move_cost = {};
  // Of stopping it to wait for its turn again; absent if it must not be.
  absl::optional<int64_t> evict_cost = {};
};

struct RepartitionRequest {
  // GPUs of the table's model, by number; each empty but for `instances`.
  size_t gpus = 0;
  std::vector<Instance> instances;
  std::vector<HoldingGang> gangs;
  // Profiles, each for one instance that is free in the end.
  std::vector<int> wanted;
  // Of making or of destroying one instance, in the unit of the gangs' costs.
  int64_t act_cost = 1;
};

// One step of a plan. It may be begun when all steps before it are done.
struct Act {
  enum class Kind {
    // From here on nothing is started on the GPU but by this plan.
    kCordon,
    // Every Task of the gang is ended, with grace.
    kStop,
    kDestroy,
    kCreate,
    // The gang starts, in the next generation, at `places`.
    kStart,
    kUncordon,
  };

  Kind kind = Kind::kCordon;
  // kCordon and kUncordon: the GPU; kDestroy and kCreate: the instance.
  Choice place;
  // kStop and kStart.
  int gang = kNobody;
  // kStart: for each of the gang's instances in the request, in that order, where it is now.
  std::vector<Choice> places;
};

struct RepartitionPlan {
  // work_lost and act_cost for each kDestroy and kCreate.
  int64_t cost = 0;
  int64_t work_lost = 0;
  // GPUs are cordoned first. No instance is destroyed before the gang that used it has stopped, and
  // none made where another still stands: after each act every GPU is in a legal state.
  std::vector<Act> acts;
  // By the index in `wanted`.
  std::vector<Choice> granted;
};

// A plan after which every wanted instance exists and is free, and every gang runs as before, was
// moved or was evicted. On one GPU the cheapest there is; on several the profiles are served one
// after the other, largest first, each by the cheapest change of one GPU, from which Tasks may move
// to free room on others: what that costs above the optimum `repartition_oracle_test` counts, and
// it may find none where there is one. Absent if it finds none. INVALID_ARGUMENT
// (ILLEGAL_MIG_LAYOUT, WRONG_REPARTITION) if the request holds what cannot be.
//
// A function of its arguments: the same request, the same plan. One GPU: at most 3^g · states for
// its g <= 7 gangs. Several: that for each wanted profile and each GPU, less what a cheaper one
// found before rules out.
absl::StatusOr<absl::optional<RepartitionPlan>> PlanRepartition(const Packing& packing,
                                                                const RepartitionRequest& request);

}  // namespace capstan::mig

#endif  // CAPSTAN_LIBS_MIG_REPARTITION_H_
