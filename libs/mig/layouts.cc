#include "libs/mig/layouts.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <memory>
#include <utility>

namespace capstan::mig {
namespace {

bool HasEqualSlices(const DeviceModel& a, const DeviceModel& b) {
  return a.compute_slices == b.compute_slices && a.memory_slices == b.memory_slices &&
         std::equal(a.profiles.begin(), a.profiles.end(), b.profiles.begin(), b.profiles.end(),
                    [](Profile x, const Profile& y) {
                      x.name = y.name;
                      return x == y;
                    });
}

std::vector<std::shared_ptr<const Layouts>> LayoutsOfAll() {
  std::vector<std::shared_ptr<const Layouts>> all;
  for (const DeviceModel& model : DeviceModels()) {
    const auto same =
        std::find_if(all.begin(), all.end(), [&model](const std::shared_ptr<const Layouts>& one) {
          return HasEqualSlices(one->table().model(), model);
        });
    auto layouts = same != all.end() ? *same : std::make_shared<const Layouts>(model);
    all.push_back(std::move(layouts));
  }
  return all;
}

}  // namespace

const Layouts& Layouts::Of(int model) {
  static const auto& all = *new std::vector<std::shared_ptr<const Layouts>>(LayoutsOfAll());
  return *all[static_cast<size_t>(model)];
}

Layouts::Layouts(DeviceModel model)
    : table_(std::move(model)), packing_(&table_, EvenDemand(table_.model())) {
  const int count = static_cast<int>(table_.positions().size());
  positions_of_.resize(table_.model().profiles.size());
  excludes_.resize(static_cast<size_t>(count));
  for (int p = 0; p < count; ++p) {
    const uint32_t bit = uint32_t{1} << p;
    positions_of_[static_cast<size_t>(table_.positions()[static_cast<size_t>(p)].profile)] |= bit;
    const State alone = *table_.Find(bit);
    for (int other = 0; other < count; ++other) {
      if (table_.Add(alone, other).has_value()) continue;
      excludes_[static_cast<size_t>(p)] |= uint32_t{1} << other;
    }
  }
}

uint32_t Layouts::Addable(uint32_t instances) const {
  uint32_t excluded = 0;
  for (uint32_t left = instances; left != 0; left &= left - 1) {
    excluded |= excludes_[static_cast<size_t>(std::countr_zero(left))];
  }
  const uint32_t all = ~uint32_t{0} >> (32 - table_.positions().size());
  return all & ~excluded;
}

int Layouts::Room(uint32_t addable, int profile) const {
  const int fit = std::popcount(addable & positions_of_[static_cast<size_t>(profile)]);
  return table_.model().profiles[static_cast<size_t>(profile)].most == 1 ? std::min(fit, 1) : fit;
}

absl::optional<Choice> ChooseInstance(absl::Span<const Candidate> gpus, const Ask& ask) {
  const Layouts& layouts = Layouts::Of(ask.model);
  std::vector<State> states;
  std::vector<uint32_t> allowed;
  std::vector<size_t> numbers;
  absl::optional<Choice> other;
  for (size_t g = 0; g < gpus.size(); ++g) {
    if (gpus[g].model != ask.model) continue;
    const uint32_t open =
        gpus[g].allowed & layouts.Addable(gpus[g].instances) & layouts.PositionsOf(ask.profile);
    if (open == 0) continue;
    const absl::optional<State> state = layouts.table().Find(gpus[g].instances);
    if (state.has_value()) {
      states.push_back(*state);
      allowed.push_back(open);
      numbers.push_back(g);
    } else if (!other.has_value()) {
      other = Choice{g, std::countr_zero(open)};
    }
  }
  absl::optional<Choice> choice = layouts.packing().Choose(states, allowed, ask.profile);
  if (!choice.has_value()) return other;
  choice->gpu = numbers[choice->gpu];
  return choice;
}

}  // namespace capstan::mig
