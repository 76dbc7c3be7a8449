#ifndef CAPSTAN_TOOLS_CAPSTAN_DEV_PLATFORM_CONFIG_H_
#define CAPSTAN_TOOLS_CAPSTAN_DEV_PLATFORM_CONFIG_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/capstan/cli/v1/platform_config.pb.h"

namespace capstan::dev {

// `config.yaml` of a data folder; all defaults if there is none.
absl::StatusOr<cli::v1::PlatformConfig> ReadPlatformConfig(const std::string& data_dir);

// A file as a person wrote it. INVALID_ARGUMENT with each setting that is out of its range; the
// error of config::ReadProtoFile if it cannot be read.
absl::StatusOr<cli::v1::PlatformConfig> ReadNewPlatformConfig(const std::string& file);

// Makes such a file the folder's `config.yaml`.
absl::Status InstallPlatformConfig(const std::string& file, const std::string& data_dir);

}  // namespace capstan::dev

#endif  // CAPSTAN_TOOLS_CAPSTAN_DEV_PLATFORM_CONFIG_H_
