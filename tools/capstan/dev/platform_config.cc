#include "tools/capstan/dev/platform_config.h"

#include "absl/strings/str_cat.h"
#include "libs/config/proto_reader.h"
#include "libs/safe_path/safe_path.h"
#include "libs/status/status_macros.h"
#include "tools/capstan/cli/proto_text.h"

namespace capstan::dev {

absl::StatusOr<cli::v1::PlatformConfig> ReadPlatformConfig(const std::string& data_dir) {
  cli::v1::PlatformConfig config;
  const absl::Status read = config::ReadProtoFile(absl::StrCat(data_dir, "/config.yaml"), &config);
  if (!read.ok() && read.code() != absl::StatusCode::kNotFound) return read;
  return config;
}

absl::Status InstallPlatformConfig(const std::string& file, const std::string& data_dir) {
  cli::v1::PlatformConfig config;
  CAPSTAN_RETURN_IF_ERROR(config::ReadProtoFile(file, &config));
  return WriteFileAtomically(absl::StrCat(data_dir, "/config.yaml"), cli::ToYaml(config), 0600);
}

}  // namespace capstan::dev
