#include "services/scheduler/core/mig_amounts.h"

#include <algorithm>
#include <cstddef>

#include "libs/mig/profiles.h"

namespace capstan::scheduler {

absl::optional<mig::Ask> AskOf(const capstan::type::v1::MigSlice& slice) {
  const int model = mig::ModelIndex(slice.model());
  if (model < 0) return absl::nullopt;
  const auto profile = mig::ParseProfile(mig::DeviceModels()[model], slice.profile());
  if (!profile.ok()) return absl::nullopt;
  return mig::Ask{model, *profile};
}

absl::optional<MigSpot> SpotOf(const capstan::type::v1::MigInstance& instance) {
  capstan::type::v1::MigSlice slice;
  slice.set_model(instance.model());
  slice.set_profile(instance.profile());
  const absl::optional<mig::Ask> ask = AskOf(slice);
  if (!ask.has_value()) return absl::nullopt;
  const absl::optional<int> position =
      mig::Layouts::Of(ask->model).table().FindPosition({ask->profile, instance.start()});
  if (!position.has_value()) return absl::nullopt;
  return MigSpot{instance.gpu(), ask->model, *position};
}

int StartOf(const MigSpot& spot) {
  return mig::Layouts::Of(spot.model).table().positions()[spot.position].start;
}

void MigAmounts::AddTo(const Key& key, int64_t times) {
  if (times == 0) return;
  const auto at =
      std::lower_bound(entries_.begin(), entries_.end(), key,
                       [](const auto& entry, const Key& wanted) { return entry.first < wanted; });
  if (at == entries_.end() || at->first != key) {
    entries_.emplace(at, key, times);
    return;
  }
  at->second += times;
  if (at->second == 0) entries_.erase(at);
}

void MigAmounts::Add(const MigAmounts& other, int64_t times) {
  for (const auto& [key, count] : other.entries_) AddTo(key, times * count);
}

absl::optional<mig::Ask> MigAmounts::ask() const {
  if (entries_.empty() || entries_.front().first.gpu != kNowhere) return absl::nullopt;
  const Key& key = entries_.front().first;
  return mig::Ask{key.model, key.item};
}

std::vector<MigSpot> MigAmounts::Instances() const {
  std::vector<MigSpot> spots;
  for (const auto& [key, count] : entries_) {
    if (key.gpu == kNowhere || key.item == kGpu) continue;
    spots.insert(spots.end(), static_cast<size_t>(std::max<int64_t>(count, 0)),
                 {key.gpu, key.model, key.item});
  }
  return spots;
}

std::vector<MigGpuState> MigAmounts::Gpus() const {
  std::vector<MigGpuState> gpus;
  for (const auto& [key, count] : entries_) {
    if (key.gpu == kNowhere) continue;
    if (key.item == kGpu) {
      if (count > 0) gpus.push_back({key.gpu, key.model, {}});
      continue;
    }
    // What a GPU of this number held that was of another model is gone with that one.
    if (gpus.empty() || gpus.back().gpu != key.gpu || gpus.back().model != key.model) continue;
    for (int64_t i = count; i < 0; ++i) gpus.back().instances.Add(key.item);
  }
  return gpus;
}

int64_t MigAmounts::Fits(const MigAmounts& each, int64_t limit) const {
  if (each.empty() || limit <= 0) return limit;
  const std::vector<MigGpuState> gpus = Gpus();
  for (const auto& [key, count] : each.entries_) {
    int64_t fit = 0;
    for (const MigGpuState& gpu : gpus) {
      if (gpu.model != key.model) continue;
      const mig::Layouts& layouts = mig::Layouts::Of(gpu.model);
      const uint32_t addable = layouts.Addable(gpu.instances.once);
      if (key.gpu == kNowhere) {
        fit += layouts.Room(addable, key.item);
      } else if (key.gpu == gpu.gpu && key.item != kGpu) {
        fit += addable >> key.item & 1;
      }
    }
    limit = std::min(limit, fit / count);
  }
  return limit;
}

absl::optional<MigSpot> MigAmounts::Choose(const mig::Ask& ask) const {
  const std::vector<MigGpuState> gpus = Gpus();
  std::vector<mig::Candidate> candidates;
  candidates.reserve(gpus.size());
  for (const MigGpuState& gpu : gpus) candidates.push_back({gpu.model, gpu.instances.once});
  const absl::optional<mig::Choice> choice = mig::ChooseInstance(candidates, ask);
  if (!choice.has_value()) return absl::nullopt;
  return MigSpot{gpus[choice->gpu].gpu, ask.model, choice->position};
}

}  // namespace capstan::scheduler
