#ifndef CAPSTAN_LIBS_MIG_LAYOUTS_H_
#define CAPSTAN_LIBS_MIG_LAYOUTS_H_

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "libs/mig/packing.h"
#include "libs/mig/profiles.h"
#include "libs/mig/state_table.h"

namespace capstan::mig {

// A profile of a model: what one Task asks for. Both are indexes, good within a process.
struct Ask {
  // In DeviceModels().
  int model = 0;
  // In DeviceModel::profiles.
  int profile = 0;

  friend bool operator==(const Ask&, const Ask&) = default;
};

// The instances of one GPU by their positions, each up to twice: where one is to stand when another
// has made way, both are counted. A value; what is added may be taken away in any order.
struct Instances {
  // Bit i: at least once, and twice, at StateTable::positions()[i].
  uint32_t once = 0;
  uint32_t twice = 0;

  void Add(int position) {
    const uint32_t bit = uint32_t{1} << position;
    ((once & bit) != 0 ? twice : once) |= bit;
  }
  void Remove(int position) {
    const uint32_t bit = uint32_t{1} << position;
    ((twice & bit) != 0 ? twice : once) &= ~bit;
  }
  bool empty() const { return once == 0; }

  friend bool operator==(const Instances&, const Instances&) = default;
};

// Which instances may stand beside which, for sets that need not be legal. Rests on this, which
// layouts_test checks of every model: whether a set is legal is a matter of its pairs, and of the
// positions of one profile any that may be added at all may be added together, but for a profile of
// which a GPU has one.
class Layouts {
 public:
  // Of DeviceModels()[model]. All are made at the first call, in some ten milliseconds: models with
  // equal slices share tables, so names are DeviceModels()' to tell.
  static const Layouts& Of(int model);

  explicit Layouts(DeviceModel model);
  Layouts(const Layouts&) = delete;
  Layouts& operator=(const Layouts&) = delete;

  const StateTable& table() const { return table_; }
  // For even demand.
  const Packing& packing() const { return packing_; }
  // Those at which an instance of the profile may begin.
  uint32_t PositionsOf(int profile) const { return positions_of_[profile]; }
  // Positions at which an instance may be added to those. O(instances).
  uint32_t Addable(uint32_t instances) const;
  // How many more instances of the profile fit, given Addable. O(1).
  int Room(uint32_t addable, int profile) const;

 private:
  StateTable table_;
  Packing packing_;
  std::vector<uint32_t> positions_of_;
  // By position: those that nothing can stand at beside it, itself among them.
  std::vector<uint32_t> excludes_;
};

// One GPU, for ChooseInstance.
struct Candidate {
  int model = 0;
  // What stands on it.
  uint32_t instances = 0;
  // Where the new one may be, as far as the caller is concerned.
  uint32_t allowed = ~uint32_t{0};
};

// Where the next instance goes: by Packing among GPUs in legal states, else on the first other one
// that takes it. Absent if none does. O(GPUs).
absl::optional<Choice> ChooseInstance(absl::Span<const Candidate> gpus, const Ask& ask);

}  // namespace capstan::mig

#endif  // CAPSTAN_LIBS_MIG_LAYOUTS_H_
