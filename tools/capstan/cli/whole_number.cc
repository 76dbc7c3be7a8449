#include "tools/capstan/cli/whole_number.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"

namespace capstan::cli {

absl::optional<int64_t> ParseWholeNumber(absl::string_view text) {
  int64_t number = 0;
  // SimpleAtoi takes signs and spaces too.
  const bool digits =
      std::all_of(text.begin(), text.end(), [](unsigned char c) { return absl::ascii_isdigit(c); });
  if (!digits || !absl::SimpleAtoi(text, &number)) return absl::nullopt;
  return number;
}

}  // namespace capstan::cli
