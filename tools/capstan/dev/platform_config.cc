#include "tools/capstan/dev/platform_config.h"

#include <sys/stat.h>

#include "absl/strings/str_cat.h"
#include "libs/config/proto_reader.h"
#include "libs/safe_path/safe_path.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "tools/capstan/cli/proto_text.h"

namespace capstan::dev {
namespace {

absl::Status CheckSharedPaths(const cli::v1::PlatformConfig::NodeAgent& settings) {
  status::FieldErrors errors;
  for (int i = 0; i < settings.shared_paths_size(); ++i) {
    const std::string& path = settings.shared_paths(i);
    struct stat info = {};
    if (path.empty() || path.front() != '/' || stat(path.c_str(), &info) != 0 ||
        !S_ISDIR(info.st_mode)) {
      errors.Add(absl::StrCat("node_agent.shared_paths[", i, "]"),
                 absl::StrCat("is `", path, "`; expected the absolute path of a folder"));
    }
  }
  return errors.ToStatus();
}

}  // namespace

absl::StatusOr<cli::v1::PlatformConfig> ReadPlatformConfig(const std::string& data_dir) {
  cli::v1::PlatformConfig config;
  const absl::Status read = config::ReadProtoFile(absl::StrCat(data_dir, "/config.yaml"), &config);
  if (!read.ok() && read.code() != absl::StatusCode::kNotFound) return read;
  return config;
}

absl::Status InstallPlatformConfig(const std::string& file, const std::string& data_dir) {
  cli::v1::PlatformConfig config;
  CAPSTAN_RETURN_IF_ERROR(config::ReadProtoFile(file, &config));
  CAPSTAN_RETURN_IF_ERROR(CheckSharedPaths(config.node_agent()));
  return WriteFileAtomically(absl::StrCat(data_dir, "/config.yaml"), cli::ToYaml(config), 0600);
}

}  // namespace capstan::dev
