#ifndef CAPSTAN_TOOLS_CAPSTAN_DEV_PART_CONFIG_H_
#define CAPSTAN_TOOLS_CAPSTAN_DEV_PART_CONFIG_H_

#include <string>

#include "absl/status/status.h"
#include "proto/capstan/cli/v1/endpoints.pb.h"
#include "proto/capstan/cli/v1/platform_config.pb.h"
#include "tools/capstan/dev/parts.h"

namespace capstan::dev {

// Writes the configuration of each part of a platform, `<data_dir>/<part>/config.yaml`, in which it
// finds its own folder, the others' addresses and what `config` says of it. `admin_uid` is who is
// admin after the first run.
absl::Status WritePartConfigs(const std::string& data_dir, const cli::v1::PlatformConfig& config,
                              const cli::v1::Endpoints& endpoints, int64_t admin_uid);

}  // namespace capstan::dev

#endif  // CAPSTAN_TOOLS_CAPSTAN_DEV_PART_CONFIG_H_
