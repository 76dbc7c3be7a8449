#include "libs/gpu/driver_files.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace capstan::gpu {
namespace {

// The kernel has 12 bits for a major number and 20 for a minor one.
constexpr int kMostMajor = (1 << 12) - 1;
constexpr int kMostMinor = (1 << 20) - 1;

// Digits alone: SimpleAtoi takes a sign, and white space around it, too.
absl::optional<int> Number(absl::string_view text, int most) {
  int number = 0;
  if (!std::all_of(text.begin(), text.end(), absl::ascii_isdigit) ||
      !absl::SimpleAtoi(text, &number) || number > most) {
    return absl::nullopt;
  }
  return number;
}

}  // namespace

absl::optional<int> CharacterMajor(absl::string_view proc_devices, absl::string_view name) {
  bool is_character = false;
  for (const absl::string_view line : absl::StrSplit(proc_devices, '\n')) {
    if (absl::EndsWith(line, " devices:")) {
      is_character = line == "Character devices:";
      continue;
    }
    if (!is_character) continue;
    absl::string_view rest = absl::StripLeadingAsciiWhitespace(line);
    const size_t end = rest.find(' ');
    if (end == absl::string_view::npos || rest.substr(end + 1) != name) continue;
    return Number(rest.substr(0, end), kMostMajor);
  }
  return absl::nullopt;
}

absl::optional<int> CapabilityMinor(absl::string_view access) {
  for (absl::string_view line : absl::StrSplit(access, '\n')) {
    if (!absl::ConsumePrefix(&line, "DeviceFileMinor:")) continue;
    return Number(absl::StripAsciiWhitespace(line), kMostMinor);
  }
  return absl::nullopt;
}

}  // namespace capstan::gpu
