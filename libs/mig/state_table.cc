#include "libs/mig/state_table.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "libs/status/error.h"

namespace capstan::mig {
namespace {

uint32_t MemoryMask(const Profile& profile, int start) {
  return ((uint32_t{1} << profile.memory_slices) - 1) << start;
}

absl::Status IllegalLayout(const std::string& message) {
  return status::Error(absl::StatusCode::kInvalidArgument, "ILLEGAL_MIG_LAYOUT", message);
}

}  // namespace

StateTable::StateTable(DeviceModel model) : model_(std::move(model)) {
  for (size_t p = 0; p < model_.profiles.size(); ++p) {
    for (int start = 0; start < model_.memory_slices; ++start) {
      if ((model_.profiles[p].starts >> start & 1) == 0) continue;
      positions_.push_back({static_cast<int>(p), start});
    }
  }
  Enumerate(/*instances=*/0, /*from=*/0);
  absl::c_sort(instances_);
  Derive();
}

bool StateTable::Beside(uint32_t instances, const Position& added) const {
  const Profile& profile = model_.profiles[static_cast<size_t>(added.profile)];
  const uint32_t memory = MemoryMask(profile, added.start);
  int compute = profile.compute_slices;
  int same = 1;
  for (size_t i = 0; i < positions_.size(); ++i) {
    if ((instances >> i & 1) == 0) continue;
    const Profile& other = model_.profiles[static_cast<size_t>(positions_[i].profile)];
    if ((MemoryMask(other, positions_[i].start) & memory) != 0) return false;
    if (other.media_extensions && profile.media_extensions) return false;
    compute += other.compute_slices;
    if (positions_[i].profile == added.profile) ++same;
  }
  return compute <= model_.compute_slices && same <= profile.most;
}

// Every set of positions is reached once, in ascending order of its positions.
void StateTable::Enumerate(uint32_t instances, size_t from) {
  instances_.push_back(instances);
  for (size_t i = from; i < positions_.size(); ++i) {
    if (Beside(instances, positions_[i])) Enumerate(instances | uint32_t{1} << i, i + 1);
  }
}

// From the last state to the first: one more instance makes the number larger.
void StateTable::Derive() {
  next_.assign(instances_.size() * positions_.size(), kIllegal);
  room_.assign(instances_.size() * model_.profiles.size(), 0);
  futures_.resize(instances_.size());
  for (size_t s = instances_.size(); s-- > 0;) {
    const auto state = static_cast<State>(s);
    std::vector<Multiset> futures = {0};
    for (size_t i = 0; i < positions_.size(); ++i) {
      const uint32_t bit = uint32_t{1} << i;
      if ((instances_[s] & bit) != 0) continue;
      const absl::optional<State> next = Find(instances_[s] | bit);
      if (!next.has_value()) continue;
      const int profile = positions_[i].profile;
      next_[Cell(state, static_cast<int>(i), positions_.size())] = *next;
      int8_t& room = room_[Cell(state, profile, model_.profiles.size())];
      room = std::max(room, static_cast<int8_t>(1 + Room(*next, profile)));
      for (const Multiset after : futures_[*next]) futures.push_back(after + One(profile));
    }
    absl::c_sort(futures);
    futures.erase(std::unique(futures.begin(), futures.end()), futures.end());
    futures.shrink_to_fit();
    futures_[s] = std::move(futures);
  }
}

absl::optional<int> StateTable::FindPosition(const Position& position) const {
  const auto found = absl::c_find(positions_, position);
  if (found == positions_.end()) return absl::nullopt;
  return static_cast<int>(found - positions_.begin());
}

absl::optional<State> StateTable::Find(uint32_t instances) const {
  const auto found = absl::c_lower_bound(instances_, instances);
  if (found == instances_.end() || *found != instances) return absl::nullopt;
  return static_cast<State>(found - instances_.begin());
}

absl::StatusOr<State> StateTable::FromPositions(const std::vector<Position>& instances) const {
  State state = kEmpty;
  for (size_t i = 0; i < instances.size(); ++i) {
    const Position& instance = instances[i];
    if (instance.profile < 0 || static_cast<size_t>(instance.profile) >= model_.profiles.size()) {
      return IllegalLayout(absl::StrCat("instances[", i, "].profile: found ", instance.profile,
                                        "; expected less than ", model_.profiles.size()));
    }
    const std::string& name = model_.profiles[static_cast<size_t>(instance.profile)].name;
    const absl::optional<int> position = FindPosition(instance);
    if (!position.has_value()) {
      return IllegalLayout(absl::StrCat("instances[", i, "]: found ", name, " at memory slice ",
                                        instance.start, ", where none may begin on ", model_.name));
    }
    const absl::optional<State> next = Add(state, *position);
    if (!next.has_value()) {
      return IllegalLayout(absl::StrCat("instances[", i, "]: found ", name, " at memory slice ",
                                        instance.start,
                                        ", which cannot stand beside those before it; expected no "
                                        "overlap, and no profile beyond its bound"));
    }
    state = *next;
  }
  return state;
}

State StateTable::Remove(State state, int position) const {
  return Find(instances_[state] & ~(uint32_t{1} << position)).value_or(state);
}

bool StateTable::Fits(State state, const std::vector<int>& count) const {
  Multiset wanted = 0;
  for (size_t p = 0; p < count.size(); ++p) {
    if (count[p] == 0) continue;
    if (p >= model_.profiles.size() || count[p] < 0 || count[p] > model_.memory_slices) {
      return false;
    }
    wanted += static_cast<Multiset>(count[p]) * One(static_cast<int>(p));
  }
  return absl::c_binary_search(futures_[state], wanted);
}

bool StateTable::Includes(State more, State fewer) const {
  return absl::c_includes(futures_[more], futures_[fewer]);
}

int StateTable::FreeMemorySlices(State state) const {
  int used = 0;
  for (size_t i = 0; i < positions_.size(); ++i) {
    if ((instances_[state] >> i & 1) == 0) continue;
    used += model_.profiles[static_cast<size_t>(positions_[i].profile)].memory_slices;
  }
  return model_.memory_slices - used;
}

}  // namespace capstan::mig
