#ifndef CAPSTAN_LIBS_GPU_DISCOVERY_CHECK_H_
#define CAPSTAN_LIBS_GPU_DISCOVERY_CHECK_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "google/protobuf/map.h"
#include "libs/status/error.h"

namespace capstan::gpu {

// Of a configuration that has GPUs found: whether none of those is declared as well. `accelerators`
// must then hold no name of whole GPUs (libs/gpu/gpu_model.h), and `mig_gpus` nothing. Which GPUs a
// machine has does not matter: a configuration is right or wrong everywhere. `prefix` begins the
// fields' paths, e.g. `node_agent.`.
void CheckBesideDiscovery(absl::string_view prefix,
                          const google::protobuf::Map<std::string, int64_t>& accelerators,
                          int mig_gpus, status::FieldErrors* errors);

}  // namespace capstan::gpu

#endif  // CAPSTAN_LIBS_GPU_DISCOVERY_CHECK_H_
