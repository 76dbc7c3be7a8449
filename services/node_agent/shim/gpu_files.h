// Which of NVIDIA's device files a Task may open. Pure.
#ifndef CAPSTAN_SERVICES_NODE_AGENT_SHIM_GPU_FILES_H_
#define CAPSTAN_SERVICES_NODE_AGENT_SHIM_GPU_FILES_H_

#include <sys/stat.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/capstan/nodeagent/v1/shim.pb.h"

namespace capstan::node_agent {

struct GpuFile {
  std::string path;
  unsigned int major = 0;
  unsigned int minor = 0;
  // CUDA does without it.
  bool optional = false;
  // It is only ever opened for reading.
  bool read_only = false;
};

// The files that the GPUs take, with the numbers they must have by the text of /proc/devices; none
// for no GPU. Errors name what is not there, and what to do.
absl::StatusOr<std::vector<GpuFile>> GpuFilesOf(const capstan::nodeagent::v1::ShimSpec::Gpus& gpus,
                                                absl::string_view proc_devices);

// What to tell of a file that is not there.
absl::Status GpuFileIsMissing(const std::string& path);

// Whether `found`, which lies at the file's path, is that very device, and `uid`, whose gid is the
// same and who has no other group, may open it; with `uid` 0 that is not looked at.
absl::Status CheckGpuFile(const GpuFile& file, const struct stat& found, int64_t uid);

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_SHIM_GPU_FILES_H_
