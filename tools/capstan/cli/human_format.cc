#include "tools/capstan/cli/human_format.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "libs/resource/quantity.h"

namespace capstan::cli {

std::string HumanBytes(int64_t bytes) {
  constexpr std::array<const char*, 7> kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  if (unit == 0) return absl::StrCat(bytes, " B");
  return absl::StrFormat("%.*f %s", value < 10 ? 1 : 0, value, kUnits[unit]);
}

std::string HumanDuration(absl::Duration duration) {
  if (duration == absl::InfiniteDuration()) return "?";
  if (duration < absl::Seconds(1)) return "0s";
  const int64_t seconds = absl::ToInt64Seconds(duration);
  if (seconds < 60) return absl::StrCat(seconds, "s");
  const auto two = [](int64_t large, const char* large_unit, int64_t small,
                      const char* small_unit) {
    return small == 0 ? absl::StrCat(large, large_unit)
                      : absl::StrCat(large, large_unit, small, small_unit);
  };
  if (seconds < 3600) return two(seconds / 60, "m", seconds % 60, "s");
  if (seconds < 86400) return two(seconds / 3600, "h", seconds % 3600 / 60, "m");
  return two(seconds / 86400, "d", seconds % 86400 / 3600, "h");
}

std::string HumanShortDuration(absl::Duration duration) {
  if (duration <= absl::ZeroDuration()) return "0s";
  if (duration < absl::Seconds(1)) {
    return absl::StrCat(std::max<int64_t>(absl::ToInt64Milliseconds(duration), 1), "ms");
  }
  if (duration < absl::Seconds(10)) {
    return absl::StrFormat("%.1fs", absl::ToDoubleSeconds(duration));
  }
  return HumanDuration(duration);
}

std::string HumanAge(absl::Time since, absl::Time now) {
  if (since == absl::UnixEpoch()) return "";
  return HumanDuration(now - since);
}

std::string Percent(int64_t done, int64_t total) {
  if (total <= 0) return "?";
  // Bounded before it becomes an integer: what a platform says may fit into none.
  const double percent =
      std::clamp(100.0 * static_cast<double>(done) / static_cast<double>(total), 0.0, 100.0);
  return absl::StrFormat("%d%%", static_cast<int>(percent));
}

std::string ProgressBar(int64_t done, int64_t total, int width) {
  width = std::clamp(width, 10, 40);
  const double part =
      total > 0 ? std::clamp(static_cast<double>(done) / static_cast<double>(total), 0.0, 1.0) : 0;
  const int filled = static_cast<int>(part * width);
  return absl::StrCat("[", std::string(static_cast<size_t>(filled), '#'),
                      std::string(static_cast<size_t>(width - filled), '.'), "] ",
                      Percent(done, total));
}

std::string DescribeResources(const type::v1::Resources& resources) {
  std::string out;
  const auto add = [&out](absl::string_view name, absl::string_view amount) {
    absl::StrAppend(&out, out.empty() ? "" : ", ", name, " ", amount);
  };
  if (resources.cpu_millis() != 0) add("cpu", resource::FormatMillis(resources.cpu_millis()));
  if (resources.memory_bytes() != 0) {
    add("memory", resource::FormatBytes(resources.memory_bytes()));
  }
  const std::map<std::string, int64_t> sorted(resources.accelerators().begin(),
                                              resources.accelerators().end());
  for (const auto& [name, count] : sorted) add(name, absl::StrCat(count));
  if (resources.has_mig()) {
    add("MIG", absl::StrCat(resources.mig().profile(), " of ", resources.mig().model()));
  }
  return out;
}

std::string DescribeEnd(const type::v1::TaskEnd& end) {
  using type::v1::TaskEnd;
  switch (end.cause()) {
    case TaskEnd::CAUSE_EXITED:
      return absl::StrCat("exit ", end.exit_code());
    case TaskEnd::CAUSE_SIGNALED:
      return absl::StrCat("signal ", end.signal(), " (", strsignal(end.signal()), ")");
    default:
      return absl::StrReplaceAll(
          absl::AsciiStrToLower(ShortEnum(TaskEnd::Cause_Name(end.cause()), "CAUSE_")),
          {{"_", " "}});
  }
}

std::string ShortEnum(absl::string_view name, absl::string_view prefix) {
  return std::string(absl::StripPrefix(name, prefix));
}

std::string LastSegment(absl::string_view name) {
  const size_t slash = name.rfind('/');
  return std::string(slash == absl::string_view::npos ? name : name.substr(slash + 1));
}

}  // namespace capstan::cli
