#include "libs/mig/placed_instance.h"

#include <cstdint>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "libs/mig/profiles.h"
#include "libs/status/error.h"

namespace capstan::mig {
namespace {

using capstan::type::v1::MigInstance;

struct Slices {
  int from = 0;
  int until = std::numeric_limits<int>::max();
};

Slices SlicesOf(const MigInstance& instance) {
  const auto model = FindDeviceModel(instance.model());
  if (!model.ok()) return {};
  const auto profile = ParseProfile(*model, instance.profile());
  if (!profile.ok()) return {};
  return {instance.start(), instance.start() + model->profiles[*profile].memory_slices};
}

absl::Status Wrong(const std::string& message) {
  return status::Error(absl::StatusCode::kFailedPrecondition, "WRONG_MIG_PLACEMENT", message);
}

}  // namespace

bool IsSameInstance(const MigInstance& a, const MigInstance& b) {
  return a.gpu() == b.gpu() && a.model() == b.model() && a.profile() == b.profile() &&
         a.start() == b.start();
}

bool Overlap(const MigInstance& a, const MigInstance& b) {
  if (a.gpu() != b.gpu()) return false;
  const Slices x = SlicesOf(a);
  const Slices y = SlicesOf(b);
  return x.from < y.until && y.from < x.until;
}

absl::Status CheckPlacement(const MigInstance& instance) {
  const auto model = FindDeviceModel(instance.model());
  if (!model.ok()) return Wrong(std::string(model.status().message()));
  const auto profile = ParseProfile(*model, instance.profile());
  if (!profile.ok()) return Wrong(std::string(profile.status().message()));
  const uint32_t starts = model->profiles[*profile].starts;
  const int start = instance.start();
  if (start >= 0 && start < 32 && (starts >> start & 1) != 0) return absl::OkStatus();
  return Wrong(absl::StrCat("an instance ", instance.profile(), " of ", instance.model(),
                            " can't begin at memory slice ", start));
}

}  // namespace capstan::mig
