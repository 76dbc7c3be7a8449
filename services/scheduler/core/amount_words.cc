#include "services/scheduler/core/amount_words.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace capstan::scheduler {
namespace {

std::string TrimmedDecimal(double value) {
  std::string text = absl::StrFormat("%.3f", value);
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text;
}

}  // namespace

std::string CoresInWords(int64_t millis) {
  return TrimmedDecimal(static_cast<double>(millis) / 1000);
}

std::string BytesInWords(int64_t bytes) {
  static constexpr const char* kUnits[] = {"", "Ki", "Mi", "Gi", "Ti", "Pi"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 1024 && unit < 5) {
    value /= 1024;
    ++unit;
  }
  std::string text = absl::StrFormat("%.2f", value);
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return absl::StrCat(text, kUnits[unit]);
}

std::string AmountInWords(absl::string_view resource, int64_t amount) {
  if (resource == "cpu") return CoresInWords(amount);
  if (resource == "memory") return BytesInWords(amount);
  return absl::StrCat(amount);
}

}  // namespace capstan::scheduler
