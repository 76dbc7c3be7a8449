#include "libs/mig/packing.h"

#include <utility>

namespace capstan::mig {

DemandMix EvenDemand(const DeviceModel& model) {
  return {std::vector<int64_t>(model.profiles.size(), 1)};
}

Packing::Packing(const StateTable* table, DemandMix demand)
    : table_(table), demand_(std::move(demand)) {
  demand_.weights.resize(table_->model().profiles.size());
  for (int s = 0; s < table_->size(); ++s) {
    worth_.push_back(WorthOf(static_cast<State>(s)));
    free_.push_back(table_->FreeMemorySlices(static_cast<State>(s)));
  }
  const int profiles = static_cast<int>(table_->model().profiles.size());
  for (int s = 0; s < table_->size(); ++s) {
    for (int p = 0; p < profiles; ++p) {
      best_.push_back(BestOf(static_cast<State>(s), p, ~uint32_t{0}));
    }
  }
}

int64_t Packing::WorthOf(State state) const {
  int64_t worth = 0;
  for (size_t p = 0; p < demand_.weights.size(); ++p) {
    worth += demand_.weights[p] * table_->model().profiles[p].memory_slices *
             table_->Room(state, static_cast<int>(p));
  }
  return worth;
}

Packing::Placed Packing::BestOf(State state, int profile, uint32_t allowed) const {
  Placed best;
  int most_futures = 0;
  for (size_t i = 0; i < table_->positions().size(); ++i) {
    if (table_->positions()[i].profile != profile || (allowed >> i & 1) == 0) continue;
    const absl::optional<State> next = table_->Add(state, static_cast<int>(i));
    if (!next.has_value()) continue;
    const int64_t loss = worth_[state] - worth_[*next];
    const int futures = table_->Futures(*next);
    const bool better =
        best.position < 0 || loss < best.loss || (loss == best.loss && futures > most_futures);
    if (!better) continue;
    best = {static_cast<int>(i), loss};
    most_futures = futures;
  }
  return best;
}

absl::optional<int> Packing::Best(State state, int profile) const {
  const int position = best_[Cell(state, profile)].position;
  return position < 0 ? absl::nullopt : absl::optional<int>(position);
}

template <typename PlacedOn>
absl::optional<Choice> Packing::ChooseOf(absl::Span<const State> gpus, PlacedOn placed_on) const {
  absl::optional<Choice> chosen;
  std::pair<int64_t, int> least;
  for (size_t g = 0; g < gpus.size(); ++g) {
    const Placed here = placed_on(g);
    if (here.position < 0) continue;
    const std::pair<int64_t, int> takes(here.loss, free_[gpus[g]]);
    if (chosen.has_value() && least <= takes) continue;
    chosen = Choice{g, here.position};
    least = takes;
  }
  return chosen;
}

absl::optional<Choice> Packing::Choose(absl::Span<const State> gpus, int profile) const {
  return ChooseOf(gpus, [&](size_t g) { return best_[Cell(gpus[g], profile)]; });
}

absl::optional<Choice> Packing::Choose(absl::Span<const State> gpus,
                                       absl::Span<const uint32_t> allowed, int profile) const {
  return ChooseOf(gpus, [&](size_t g) { return BestOf(gpus[g], profile, allowed[g]); });
}

absl::optional<Choice> FirstFit(const StateTable& table, absl::Span<const State> gpus,
                                int profile) {
  for (size_t g = 0; g < gpus.size(); ++g) {
    if (table.Room(gpus[g], profile) == 0) continue;
    for (size_t i = 0; i < table.positions().size(); ++i) {
      if (table.positions()[i].profile != profile) continue;
      if (table.Add(gpus[g], static_cast<int>(i)).has_value()) {
        return Choice{g, static_cast<int>(i)};
      }
    }
  }
  return absl::nullopt;
}

}  // namespace capstan::mig
