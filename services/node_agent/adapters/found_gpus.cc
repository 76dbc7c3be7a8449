#include "services/node_agent/adapters/found_gpus.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "libs/gpu/gpu_model.h"
#include "libs/gpu/mig_table.h"
#include "libs/mig/profiles.h"

namespace capstan::node_agent {
namespace {

// Why the GPU, in MIG mode, can't be offered.
absl::optional<std::string> WhyNoSlices(const gpu::Gpu& gpu, const std::string& model) {
  const auto table = mig::FindDeviceModel(model);
  if (!table.ok()) {
    return absl::StrCat("it is in MIG mode, and there is no table of what ", model,
                        " can be cut into");
  }
  const absl::Status same = gpu::CheckPlacements(*table, gpu);
  if (same.ok()) return absl::nullopt;
  return absl::StrCat("it is in MIG mode, and its driver places instances otherwise than we know: ",
                      same.message());
}

}  // namespace

FoundGpus OfferGpus(const std::vector<gpu::Gpu>& gpus) {
  FoundGpus found;
  for (const gpu::Gpu& gpu : gpus) {
    const auto leave_out = [&](absl::string_view why) {
      found.left_out.push_back(absl::StrCat("GPU ", gpu.index, " (",
                                            gpu.product.empty() ? gpu.uuid : gpu.product,
                                            ") is not offered: ", why));
    };
    if (gpu.fault.has_value()) {
      leave_out(gpu::FaultText(*gpu.fault));
      continue;
    }
    const std::string model = gpu::ModelName(gpu.product, gpu.memory_bytes);
    if (model.empty()) {
      leave_out(
          "the driver does not say its product name, or how much memory it has, which takes "
          "root in MIG mode");
      continue;
    }
    if (!gpu.mig.has_value() || !gpu.mig->now) {
      const std::string resource = gpu::WholeGpuResource(model);
      ++found.accelerators[resource];
      found.whole_gpus.push_back({gpu.uuid, resource, gpu.minor});
      continue;
    }
    if (const absl::optional<std::string> why = WhyNoSlices(gpu, model)) {
      leave_out(*why);
      continue;
    }
    capstan::type::v1::MigGpu& offered = found.mig_gpus.emplace_back();
    offered.set_index(gpu.index);
    offered.set_model(model);
  }
  return found;
}

}  // namespace capstan::node_agent
