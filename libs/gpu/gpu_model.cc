#include "libs/gpu/gpu_model.h"

#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace capstan::gpu {
namespace {

constexpr absl::string_view kPrefix = "nvidia.com/";
constexpr int64_t kGib = int64_t{1} << 30;

// What may stand in the name of a resource.
std::string Clean(absl::string_view word) {
  std::string clean;
  for (const char c : word) {
    if (absl::ascii_isalnum(static_cast<unsigned char>(c))) clean += c;
  }
  return clean;
}

bool HasDigit(absl::string_view word) {
  for (const char c : word) {
    if (absl::ascii_isdigit(static_cast<unsigned char>(c))) return true;
  }
  return false;
}

}  // namespace

std::string ModelName(absl::string_view product, int64_t memory_bytes) {
  std::vector<std::string> chip;
  for (const absl::string_view part : absl::StrSplit(product, absl::ByAnyChar(" -"))) {
    const std::string word = Clean(part);
    if (word.empty() || (chip.empty() && absl::EqualsIgnoreCase(word, "nvidia"))) continue;
    chip.push_back(absl::AsciiStrToUpper(word));
    if (HasDigit(word)) break;
  }
  if (chip.empty() || memory_bytes <= 0) return "";
  return absl::StrCat(absl::StrJoin(chip, "-"), "-", (memory_bytes + kGib - 1) / kGib, "GB");
}

std::string WholeGpuResource(absl::string_view model) {
  return absl::StrCat(kPrefix, absl::AsciiStrToLower(model));
}

bool IsWholeGpuResource(absl::string_view name) { return absl::StartsWith(name, kPrefix); }

}  // namespace capstan::gpu
