#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_WHOLE_NUMBER_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_WHOLE_NUMBER_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace capstan::cli {

// What digits alone stand for, without sign or space; none if they are too many.
absl::optional<int64_t> ParseWholeNumber(absl::string_view text);

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_WHOLE_NUMBER_H_
