#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_BUNDLE_FOLDER_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_BUNDLE_FOLDER_H_

#include <string>

#include "absl/status/statusor.h"
#include "proto/capstan/dataloader/v1/dataset.pb.h"

namespace capstan::cli {

// The manifest of a folder that is to become a Bundle: its regular files, sorted, with sizes,
// digests and executable bits. Folders called `.git` and `__pycache__` are left out. Symbolic
// links, sockets and the like are refused by name, and so are more than 10,000 files or 1 GiB.
absl::StatusOr<dataloader::v1::Manifest> ScanBundleFolder(const std::string& folder);

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_BUNDLE_FOLDER_H_
