#include "libs/gpu/discovery_check.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "libs/gpu/gpu_model.h"

namespace capstan::gpu {

void CheckBesideDiscovery(absl::string_view prefix,
                          const google::protobuf::Map<std::string, int64_t>& accelerators,
                          int mig_gpus, status::FieldErrors* errors) {
  // In an order of our own.
  std::set<std::string> names;
  for (const auto& [name, count] : accelerators) {
    if (IsWholeGpuResource(name)) names.insert(name);
  }
  for (const std::string& name : names) {
    errors->Add(absl::StrCat(prefix, "accelerators[", name, "]"),
                "names of this kind are for the GPUs that `discover_gpus` finds; expected another "
                "name, or `discover_gpus: false`");
  }
  if (mig_gpus > 0) {
    errors->Add(absl::StrCat(prefix, "mig_gpus"),
                absl::StrCat("names ", mig_gpus,
                             " beside those that `discover_gpus` finds; "
                             "expected none, or `discover_gpus: false`"));
  }
}

}  // namespace capstan::gpu
