#include "integration/simulation/mig_gpus.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/mig/layouts.h"
#include "libs/mig/placed_instance.h"
#include "libs/mig/profiles.h"
#include "libs/mig/state_table.h"

namespace capstan::simulation {

using capstan::type::v1::MigInstance;

std::string MigInstanceInWords(const MigInstance& instance) {
  return absl::StrCat(instance.profile(), " at ", instance.start(), " of GPU ", instance.gpu());
}

bool CanStandTogether(absl::string_view model, const std::vector<MigInstance>& instances) {
  const int index = mig::ModelIndex(model);
  if (index < 0) return instances.empty();
  std::vector<mig::Position> positions;
  for (const MigInstance& instance : instances) {
    const auto profile = mig::ParseProfile(mig::DeviceModels()[index], instance.profile());
    if (instance.model() != model || !profile.ok()) return false;
    positions.push_back({*profile, instance.start()});
  }
  return mig::Layouts::Of(index).table().FromPositions(positions).ok();
}

absl::StatusOr<std::string> MigGpus::Make(const node_agent::MakeMigInstance& order,
                                          std::vector<MigInstance>* removed) {
  const MigInstance& wanted = order.instance;
  if (wanted.gpu() < 0 || wanted.gpu() >= static_cast<int>(models_.size()) ||
      models_[wanted.gpu()] != wanted.model() || !CanStandTogether(wanted.model(), {wanted})) {
    return absl::FailedPreconditionError(
        absl::StrCat(machine_, " has no GPU for ", MigInstanceInWords(wanted)));
  }
  for (const MigInstance& other : order.others) {
    if (!mig::Overlap(other, wanted)) continue;
    return absl::UnavailableError(absl::StrCat(MigInstanceInWords(other), " is in the way"));
  }
  for (const auto& [name, instance] : made_) {
    if (mig::IsSameInstance(instance, wanted)) return name;
  }
  for (auto it = made_.begin(); it != made_.end();) {
    if (!mig::Overlap(it->second, wanted)) {
      ++it;
      continue;
    }
    removed->push_back(it->second);
    it = made_.erase(it);
  }
  std::vector<MigInstance> beside = {wanted};
  for (const auto& [name, instance] : made_) {
    if (instance.gpu() == wanted.gpu()) beside.push_back(instance);
  }
  if (!CanStandTogether(wanted.model(), beside)) {
    return absl::UnavailableError(
        absl::StrCat(MigInstanceInWords(wanted), " has no room beside what stands there"));
  }
  const std::string name = absl::StrCat("MIG-", machine_, "-", next_++);
  made_[name] = wanted;
  return name;
}

bool MigGpus::Remove(const MigInstance& instance) {
  return std::erase_if(made_, [&instance](const auto& made) {
           return mig::IsSameInstance(made.second, instance);
         }) > 0;
}

absl::optional<MigInstance> MigGpus::Find(absl::string_view name) const {
  const auto found = made_.find(std::string(name));
  if (found == made_.end()) return absl::nullopt;
  return found->second;
}

std::string MigGpus::Left() const {
  std::string left;
  for (const auto& [name, instance] : made_) {
    absl::StrAppend(&left, left.empty() ? "" : ", ", name, " (", MigInstanceInWords(instance), ")");
  }
  return left;
}

}  // namespace capstan::simulation
