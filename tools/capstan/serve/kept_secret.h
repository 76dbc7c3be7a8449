#ifndef CAPSTAN_TOOLS_CAPSTAN_SERVE_KEPT_SECRET_H_
#define CAPSTAN_TOOLS_CAPSTAN_SERVE_KEPT_SECRET_H_

#include <string>

#include "absl/status/statusor.h"

namespace capstan::serve {

// The 32 random bytes in the file at `path` (0600), which is made if it is not there.
absl::StatusOr<std::string> ReadOrMakeSecret(const std::string& path);

}  // namespace capstan::serve

#endif  // CAPSTAN_TOOLS_CAPSTAN_SERVE_KEPT_SECRET_H_
