#include "libs/mig/placed_instance.h"

#include <limits>

#include "libs/mig/profiles.h"

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

}  // namespace capstan::mig
