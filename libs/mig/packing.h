#ifndef CAPSTAN_LIBS_MIG_PACKING_H_
#define CAPSTAN_LIBS_MIG_PACKING_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "libs/mig/profiles.h"
#include "libs/mig/state_table.h"

namespace capstan::mig {

// What is asked for: how often each profile of a model, in any unit. A missing weight is 0.
struct DemandMix {
  std::vector<int64_t> weights;
};

// Every profile as often.
DemandMix EvenDemand(const DeviceModel& model);

struct Choice {
  size_t gpu = 0;
  // In StateTable::positions().
  int position = 0;

  friend bool operator==(const Choice&, const Choice&) = default;
};

// Places an instance where most is kept of what may be asked for next. The worth of a state is the
// memory slices that the demand could still use on it:
//
//   Worth(s) = Σ over profiles p of weight(p) · memory_slices(p) · StateTable::Room(s, p)
//
// so that room which no profile can use is worth nothing, and room for a large profile that is
// often asked for is worth most. Chosen is, over all GPUs, the position that takes the least worth;
// on one GPU, of such positions one that leaves the most futures (StateTable::Futures), and of such
// the lowest; over GPUs, of such the one with the least free memory, and then the first.
//
// Holds for any demand: an instance is refused only if no GPU can take it; no other position on
// that GPU keeps all that the chosen one keeps and more; and if one position keeps everything that
// any other does, then so does the chosen one. It is not always the best for a sequence that is
// known beforehand: `packing_oracle_test` says by how much.
//
// Immutable after it was made, but for the table, which must outlive it; any thread may read.
class Packing {
 public:
  // O(states · positions).
  Packing(const StateTable* table, DemandMix demand);

  const StateTable& table() const { return *table_; }
  int64_t Worth(State state) const { return worth_[state]; }

  // Where an instance of the profile goes on a GPU in `state`; absent if it does not fit. O(1).
  absl::optional<int> Best(State state, int profile) const;
  // What placing it there takes of the worth; only where it fits. O(1).
  int64_t Loss(State state, int profile) const { return best_[Cell(state, profile)].loss; }

  // Over GPUs of this model, each with the state that its busy instances make; absent if none can
  // take it. O(GPUs).
  absl::optional<Choice> Choose(absl::Span<const State> gpus, int profile) const;
  // The same where on each GPU only some positions (by bit) may be taken, for as long as others are
  // kept for somebody. O(GPUs · positions).
  absl::optional<Choice> Choose(absl::Span<const State> gpus, absl::Span<const uint32_t> allowed,
                                int profile) const;

 private:
  struct Placed {
    // -1 if it does not fit.
    int position = -1;
    int64_t loss = 0;
  };

  size_t Cell(State state, int profile) const {
    return static_cast<size_t>(state) * table_->model().profiles.size() +
           static_cast<size_t>(profile);
  }
  int64_t WorthOf(State state) const;
  Placed BestOf(State state, int profile, uint32_t allowed) const;
  // `placed_on(g)`: where the instance goes on the g-th GPU.
  template <typename PlacedOn>
  absl::optional<Choice> ChooseOf(absl::Span<const State> gpus, PlacedOn placed_on) const;

  const StateTable* table_;
  DemandMix demand_;
  std::vector<int64_t> worth_;
  std::vector<int> free_;
  std::vector<Placed> best_;
};

// The policy "off": the first GPU that can take it, at its lowest slice. O(GPUs · positions).
absl::optional<Choice> FirstFit(const StateTable& table, absl::Span<const State> gpus, int profile);

}  // namespace capstan::mig

#endif  // CAPSTAN_LIBS_MIG_PACKING_H_
