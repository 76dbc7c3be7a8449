// Amounts for people: rounded, with a unit.
#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_HUMAN_FORMAT_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_HUMAN_FORMAT_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "proto/capstan/type/v1/task.pb.h"

namespace capstan::cli {

// `0 B`, `1023 B`, `1.5 KiB`, `12 GiB`.
std::string HumanBytes(int64_t bytes);
// `5s`, `3m20s`, `2h5m`, `3d4h`: the two largest units. Below a second `0s`.
std::string HumanDuration(absl::Duration duration);
// The same, but with what lies below a second: `133ms`, `2.4s` below ten seconds.
std::string HumanShortDuration(absl::Duration duration);
// Age of `since`; empty if it is the epoch (unset).
std::string HumanAge(absl::Time since, absl::Time now);
// `[#####.....] 52 %`, 10 to 40 characters wide; `total` 0 means unknown.
std::string ProgressBar(int64_t done, int64_t total, int width);
// `52%`, or `?`.
std::string Percent(int64_t done, int64_t total);
// `cpu 250m, memory 256Mi, nvidia.com/h100 2`.
std::string DescribeResources(const type::v1::Resources& resources);
// `exit 3`, `signal 9 (Killed)`, `stopped`, `out of memory`, …
std::string DescribeEnd(const type::v1::TaskEnd& end);
// A proto enum's name without its prefix: `STATE_RUNNING` → `RUNNING`.
std::string ShortEnum(absl::string_view name, absl::string_view prefix);
// Last segment of a resource name.
std::string LastSegment(absl::string_view name);

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_HUMAN_FORMAT_H_
