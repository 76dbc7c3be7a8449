#ifndef CAPSTAN_LIBS_MIG_STATE_TABLE_H_
#define CAPSTAN_LIBS_MIG_STATE_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "libs/mig/profiles.h"

namespace capstan::mig {

// A profile at a place where it may stand: there are 25 of them on a GPU of 8 memory slices.
struct Position {
  // Index in DeviceModel::profiles.
  int profile = 0;
  // Memory slice.
  int start = 0;

  friend bool operator==(const Position&, const Position&) = default;
};

// Which instances stand on one GPU: the number of a legal state in a StateTable. 0 is the empty
// GPU.
using State = uint16_t;
inline constexpr State kEmpty = 0;

// All legal states of a model, and what follows from each, worked out once: a state is legal if no
// two instances overlap in memory slices, their compute slices are there, and no profile stands
// more often than its bound, nor two with media engines. What is left after an instance was taken
// from a legal state is legal. Immutable after it was made; any thread may read.
class StateTable {
 public:
  // O(states · positions · multisets of instances): some ten milliseconds for 8 slices.
  explicit StateTable(DeviceModel model);

  const DeviceModel& model() const { return model_; }
  // By profile, then by start. At most 32.
  const std::vector<Position>& positions() const { return positions_; }
  int size() const { return static_cast<int>(instances_.size()); }

  // Index of the position, or absent if the profile must not begin there. O(positions).
  absl::optional<int> FindPosition(const Position& position) const;

  // Bit i: an instance stands at positions()[i]. O(1).
  uint32_t Instances(State state) const { return instances_[state]; }
  // The state with exactly these instances; absent if that is not legal. O(log states).
  absl::optional<State> Find(uint32_t instances) const;
  // The state of a GPU on which these stand, in any order. INVALID_ARGUMENT (ILLEGAL_MIG_LAYOUT)
  // names the instance that can't stand where it is, or not beside those before it.
  absl::StatusOr<State> FromPositions(const std::vector<Position>& instances) const;

  // The state with one more instance; absent if it can't stand there. O(1).
  absl::optional<State> Add(State state, int position) const {
    const State next = next_[Cell(state, position, positions_.size())];
    return next == kIllegal ? absl::nullopt : absl::optional<State>(next);
  }
  // The state without the instance at `position`, which must stand there. O(log states).
  State Remove(State state, int position) const;

  // How many more instances of the profile fit if nothing else is added. O(1).
  int Room(State state, int profile) const {
    return room_[Cell(state, profile, model_.profiles.size())];
  }
  // How many different multisets of instances can be added, nothing among them. If in one state all
  // can be added that can be in another, and more, this is larger. O(1).
  int Futures(State state) const { return static_cast<int>(futures_[state].size()); }
  // Whether the multiset can be added: `count[p]` instances of each profile. O(log futures).
  bool Fits(State state, const std::vector<int>& count) const;
  // Whether everything that can be added in `fewer` can be in `more`. O(futures).
  bool Includes(State more, State fewer) const;
  // Nothing can be added.
  bool Maximal(State state) const { return futures_[state].size() == 1; }
  // Memory slices on which no instance stands.
  int FreeMemorySlices(State state) const;

 private:
  static constexpr State kIllegal = 0xFFFF;
  // A multiset of instances: 4 bits for each profile.
  using Multiset = uint64_t;

  static size_t Cell(State state, int column, size_t columns) {
    return static_cast<size_t>(state) * columns + static_cast<size_t>(column);
  }
  static Multiset One(int profile) { return Multiset{1} << (4 * profile); }

  bool Beside(uint32_t instances, const Position& added) const;
  void Enumerate(uint32_t instances, size_t from);
  void Derive();

  DeviceModel model_;
  std::vector<Position> positions_;
  // By state, ascending.
  std::vector<uint32_t> instances_;
  // By state and position.
  std::vector<State> next_;
  // By state and profile.
  std::vector<int8_t> room_;
  // By state, ascending.
  std::vector<std::vector<Multiset>> futures_;
};

}  // namespace capstan::mig

#endif  // CAPSTAN_LIBS_MIG_STATE_TABLE_H_
