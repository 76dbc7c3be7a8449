#include "libs/resource/quantity.h"

#include <array>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "libs/status/error.h"

namespace capstan::resource {
namespace {

__extension__ using Uint128 = unsigned __int128;

constexpr size_t kMaxTextLength = 64;
// Beyond it any non-zero value overflows int64 in any unit, or is below one thousandth.
constexpr int kMaxExponent = 64;
constexpr absl::Duration kMaxDuration = absl::Seconds(int64_t{315'576'000'000});

struct Suffix {
  absl::string_view text;
  int tens;
  int twos;
};

constexpr std::array<Suffix, 16> kSuffixes = {{{"", 0, 0},
                                               {"n", -9, 0},
                                               {"u", -6, 0},
                                               {"m", -3, 0},
                                               {"k", 3, 0},
                                               {"M", 6, 0},
                                               {"G", 9, 0},
                                               {"T", 12, 0},
                                               {"P", 15, 0},
                                               {"E", 18, 0},
                                               {"Ki", 0, 10},
                                               {"Mi", 0, 20},
                                               {"Gi", 0, 30},
                                               {"Ti", 0, 40},
                                               {"Pi", 0, 50},
                                               {"Ei", 0, 60}}};

absl::Status BadQuantity(absl::string_view text, absl::string_view why) {
  const std::string shown(text.substr(0, kMaxTextLength));
  return status::Error(absl::StatusCode::kInvalidArgument, "INVALID_QUANTITY",
                       absl::StrCat("'", shown, "' ", why), {{"quantity", shown}});
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// A number as mantissa × 10^tens × 2^twos.
struct Parsed {
  Uint128 mantissa = 0;
  int tens = 0;
  int twos = 0;
};

bool MultiplyChecked(Uint128* value, unsigned by) {
  return !__builtin_mul_overflow(*value, static_cast<Uint128>(by), value);
}

absl::StatusOr<Parsed> ParseParts(absl::string_view text) {
  if (text.size() > kMaxTextLength) return BadQuantity(text, "is too long for a quantity");
  absl::string_view rest = text;
  if (!rest.empty() && rest.front() == '-') return BadQuantity(text, "must not be negative");
  if (!rest.empty() && rest.front() == '+') rest.remove_prefix(1);
  Parsed parsed;
  bool any_digit = false;
  bool in_fraction = false;
  for (; !rest.empty(); rest.remove_prefix(1)) {
    const char c = rest.front();
    if (c == '.' && !in_fraction) {
      in_fraction = true;
      continue;
    }
    if (!IsDigit(c)) break;
    any_digit = true;
    if (!MultiplyChecked(&parsed.mantissa, 10) ||
        __builtin_add_overflow(parsed.mantissa, static_cast<Uint128>(c - '0'), &parsed.mantissa)) {
      return BadQuantity(text, "has too many digits");
    }
    if (in_fraction) --parsed.tens;
  }
  if (!any_digit) {
    return BadQuantity(text, "is not a quantity such as 4Gi, 500m, 1.5 or 2");
  }
  // `E` alone is the suffix for 10^18; with a number behind it, an exponent.
  if (rest.size() > 1 && (rest.front() == 'e' || rest.front() == 'E')) {
    absl::string_view digits = rest.substr(1);
    const bool signed_exponent = digits.front() == '+' || digits.front() == '-';
    int exponent = 0;
    if (IsDigit(digits[signed_exponent ? (digits.size() > 1 ? 1 : 0) : 0])) {
      if (!absl::SimpleAtoi(digits.front() == '+' ? digits.substr(1) : digits, &exponent) ||
          exponent > kMaxExponent || exponent < -kMaxExponent) {
        return BadQuantity(text, "has an exponent that cannot be used");
      }
      parsed.tens += exponent;
      return parsed;
    }
  }
  for (const Suffix& suffix : kSuffixes) {
    if (rest == suffix.text) {
      parsed.tens += suffix.tens;
      parsed.twos += suffix.twos;
      return parsed;
    }
  }
  return BadQuantity(text, absl::StrCat("has the unknown suffix '", rest,
                                        "'; use m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi or Ei"));
}

// mantissa × 10^tens × 2^twos as an integer. Tens are split into fives and twos, so that division
// comes first and is exact or an error.
absl::StatusOr<int64_t> ToInteger(absl::string_view text, Parsed parsed, absl::string_view unit) {
  if (parsed.mantissa == 0) return 0;
  int fives = parsed.tens;
  int twos = parsed.tens + parsed.twos;
  Uint128 value = parsed.mantissa;
  for (; fives < 0; ++fives) {
    if (value % 5 != 0) return BadQuantity(text, absl::StrCat("is not a whole number of ", unit));
    value /= 5;
  }
  for (; twos < 0; ++twos) {
    if (value % 2 != 0) return BadQuantity(text, absl::StrCat("is not a whole number of ", unit));
    value /= 2;
  }
  bool fits = true;
  for (; fives > 0 && fits; --fives) fits = MultiplyChecked(&value, 5);
  for (; twos > 0 && fits; --twos) fits = MultiplyChecked(&value, 2);
  if (!fits || value > static_cast<Uint128>(std::numeric_limits<int64_t>::max())) {
    return BadQuantity(text, "is too large");
  }
  return static_cast<int64_t>(value);
}

}  // namespace

absl::StatusOr<int64_t> ParseQuantity(absl::string_view text) {
  absl::StatusOr<Parsed> parsed = ParseParts(text);
  if (!parsed.ok()) return parsed.status();
  return ToInteger(text, *parsed, "units");
}

absl::StatusOr<int64_t> ParseMilliQuantity(absl::string_view text) {
  absl::StatusOr<Parsed> parsed = ParseParts(text);
  if (!parsed.ok()) return parsed.status();
  parsed->tens += 3;
  return ToInteger(text, *parsed, "thousandths");
}

std::string FormatBytes(int64_t bytes) {
  int power = 0;
  while (power < 6 && bytes != 0 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++power;
  }
  constexpr std::array<const char*, 7> kNames = {"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"};
  return absl::StrCat(bytes, kNames[power]);
}

std::string FormatMillis(int64_t millis) {
  if (millis % 1000 == 0) return absl::StrCat(millis / 1000);
  return absl::StrCat(millis, "m");
}

absl::StatusOr<absl::Duration> ParseDuration(absl::string_view text) {
  absl::Duration duration;
  // A plus says nothing, and would let one duration have two spellings.
  if (text.size() > kMaxTextLength || absl::StartsWith(text, "+") ||
      !absl::ParseDuration(text, &duration)) {
    const std::string shown(text.substr(0, kMaxTextLength));
    return status::Error(absl::StatusCode::kInvalidArgument, "INVALID_DURATION",
                         absl::StrCat("'", shown, "' is not a duration such as 30s, 15m or 1h30m"),
                         {{"duration", shown}});
  }
  if (duration < absl::ZeroDuration() || duration > kMaxDuration) {
    return status::Error(absl::StatusCode::kInvalidArgument, "INVALID_DURATION",
                         absl::StrCat("'", text, "' is negative or too long"),
                         {{"duration", std::string(text)}});
  }
  return duration;
}

}  // namespace capstan::resource
