// What a platform's data folder holds that nobody will use or remove any more.
#ifndef CAPSTAN_INTEGRATION_CRASH_LEFTOVER_FILES_H_
#define CAPSTAN_INTEGRATION_CRASH_LEFTOVER_FILES_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace capstan::integration {

// Files and folders below `data_dir` that are not among those that a running platform without Tasks
// has, one a line, sorted: what is staged, half-written or half-removed, and at the Site also
// content without its manifest, a manifest without its content, and more than one Dataset version.
// What a crash has torn off and a part keeps aside on purpose is none.
std::vector<std::string> LeftoverFiles(const std::string& data_dir);

// Whether a file or folder of a data folder, by its path in it, may be there.
bool BelongsToPlatform(absl::string_view path);

}  // namespace capstan::integration

#endif  // CAPSTAN_INTEGRATION_CRASH_LEFTOVER_FILES_H_
