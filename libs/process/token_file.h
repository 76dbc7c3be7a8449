#ifndef CAPSTAN_LIBS_PROCESS_TOKEN_FILE_H_
#define CAPSTAN_LIBS_PROCESS_TOKEN_FILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "libs/safe_path/safe_path.h"

namespace capstan::process {

// Opens the file with the join token that an operator put beside the configuration. Invalid if
// `path` is empty or there is none; FAILED_PRECONDITION with TOKEN_FILE_READABLE if others than its
// owner may use it; a link is refused.
absl::StatusOr<UniqueFd> OpenTokenFile(const std::string& path);

}  // namespace capstan::process

#endif  // CAPSTAN_LIBS_PROCESS_TOKEN_FILE_H_
