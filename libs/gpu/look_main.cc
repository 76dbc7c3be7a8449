// gpu_look [list | processes | check] [--library PATH]: what NVML tells of this machine's GPUs, one
// JSON object a line. Changes nothing.
//
// list       which there are, and how they could be cut into MIG instances
// processes  who uses them
// check      exits with 1 if the driver places MIG instances otherwise than the table of the GPU's
//            model in libs/mig, and says where; a model without a table is named and passed over
//
// Exits with 3 if there is no NVML here, and 2 if it is called wrongly.
#include <cstdio>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "libs/gpu/device_inventory.h"
#include "libs/gpu/device_reader.h"
#include "libs/gpu/gpu_json.h"
#include "libs/gpu/gpu_model.h"
#include "libs/gpu/mig_table.h"
#include "libs/gpu/nvml.h"
#include "libs/gpu/nvml_inventory.h"
#include "libs/gpu/nvml_library.h"
#include "libs/mig/profiles.h"

namespace capstan::gpu {
namespace {

int Say(const std::string& text, int exit_code) {
  fprintf(stderr, "gpu_look: %s\n", text.c_str());
  return exit_code;
}

int Check(const Gpu& gpu) {
  const std::string who = absl::StrCat("GPU ", gpu.index, " (", gpu.product, ")");
  const std::string model = ModelName(gpu.product, gpu.memory_bytes);
  const auto table = mig::FindDeviceModel(model);
  if (!table.ok()) return Say(absl::StrCat(who, ": no table: ", table.status().message()), 0);
  const absl::Status same = CheckPlacementsAndNames(*table, gpu);
  if (!same.ok()) return Say(absl::StrCat(who, ": ", same.message()), 1);
  return Say(absl::StrCat(who, ": as the table of ", model, " says"), 0);
}

int Processes(const std::string& library) {
  const auto reader = OpenNvml(library);
  if (!reader.ok()) return Say(std::string(reader.status().message()), 3);
  for (const DeviceUse& device : (*reader)->Read()) puts(DeviceUseJson(device).c_str());
  return 0;
}

int Look(const std::string& mode, const std::string& library) {
  if (mode == "processes") return Processes(library);
  if (mode != "list" && mode != "check") return Say("expected list, processes or check", 2);
  const auto inventory = OpenNvmlInventory(library);
  if (!inventory.ok()) return Say(std::string(inventory.status().message()), 3);
  const auto gpus = (*inventory)->List();
  if (!gpus.ok()) return Say(std::string(gpus.status().message()), 3);
  for (const Gpu& gpu : *gpus) puts(GpuJson(gpu).c_str());
  for (const Gpu& gpu : *gpus) {
    if (mode == "check" && Check(gpu) != 0) return 1;
  }
  return 0;
}

}  // namespace
}  // namespace capstan::gpu

int main(int argc, char** argv) {
  std::string mode = "list";
  std::string library = capstan::gpu::kNvmlLibrary;
  std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() >= 2 && words[words.size() - 2] == "--library") {
    library = words.back();
    words.resize(words.size() - 2);
  }
  if (words.size() > 1) return capstan::gpu::Look("", library);
  if (!words.empty()) mode = words[0];
  return capstan::gpu::Look(mode, library);
}
