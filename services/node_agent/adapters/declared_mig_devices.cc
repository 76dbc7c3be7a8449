#include "services/node_agent/adapters/declared_mig_devices.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "libs/mig/placed_instance.h"

namespace capstan::node_agent {
namespace {

using capstan::type::v1::MigGpu;
using capstan::type::v1::MigInstance;

class DeclaredMigDevices final : public MigDevices {
 public:
  DeclaredMigDevices(std::vector<MigGpu> gpus, Strand* strand)
      : gpus_(std::move(gpus)), strand_(strand) {}

  void Make(const MakeMigInstance& order, Callback<std::string> done) override {
    strand_->Post([done = std::move(done), name = NameOf(order)]() mutable { done(name); });
  }
  void Remove(const MigInstance&, DoneCallback done) override {
    strand_->Post([done = std::move(done)]() mutable { done(absl::OkStatus()); });
  }

 private:
  absl::StatusOr<std::string> NameOf(const MakeMigInstance& order) const {
    const MigInstance& instance = order.instance;
    const absl::Status placement = mig::CheckPlacement(instance);
    if (!placement.ok()) return placement;
    const bool is_there = std::any_of(gpus_.begin(), gpus_.end(), [&instance](const MigGpu& gpu) {
      return gpu.index() == instance.gpu() && gpu.model() == instance.model();
    });
    if (!is_there) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the Node has no GPU ", instance.gpu(), " of model ", instance.model(), " in MIG mode"));
    }
    const bool is_taken = std::any_of(
        order.others.begin(), order.others.end(),
        [&instance](const MigInstance& other) { return mig::Overlap(other, instance); });
    if (is_taken) return absl::UnavailableError("another Task still has the instance's place");
    return absl::StrCat("MIG-GPU-", instance.gpu(), "/", instance.start(), "/", instance.profile());
  }

  const std::vector<MigGpu> gpus_;
  Strand* const strand_;
};

}  // namespace

std::unique_ptr<MigDevices> MakeDeclaredMigDevices(std::vector<MigGpu> gpus, Strand* strand) {
  return std::make_unique<DeclaredMigDevices>(std::move(gpus), strand);
}

}  // namespace capstan::node_agent
