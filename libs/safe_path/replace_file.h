#ifndef CAPSTAN_LIBS_SAFE_PATH_REPLACE_FILE_H_
#define CAPSTAN_LIBS_SAFE_PATH_REPLACE_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace capstan {

// Replaces a file at once (0600), without forcing it to disk: for what means nothing after a crash
// of the machine. WriteFileAtomically is for everything else.
absl::Status ReplaceFile(const std::string& path, absl::string_view bytes);

}  // namespace capstan

#endif  // CAPSTAN_LIBS_SAFE_PATH_REPLACE_FILE_H_
