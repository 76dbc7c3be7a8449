// Amounts as people write them, by Kubernetes' rules: `4Gi`, `500m`, `1.5`, `1e3`, `2k`. Exact: a
// value that does not fit, or is not a whole number of the unit asked for, is an error and never
// rounded.
#ifndef CAPSTAN_LIBS_RESOURCE_QUANTITY_H_
#define CAPSTAN_LIBS_RESOURCE_QUANTITY_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace capstan::resource {

// A quantity in whole units, e.g. bytes: `4Gi` is 4294967296. Not negative.
absl::StatusOr<int64_t> ParseQuantity(absl::string_view text);

// A quantity in thousandths, e.g. of a core: `500m` and `0.5` are 500, `2` is 2000.
absl::StatusOr<int64_t> ParseMilliQuantity(absl::string_view text);

// The shortest exact form with a binary suffix: `4Gi`, `1500`.
std::string FormatBytes(int64_t bytes);

// `2`, `500m`, `1500m`.
std::string FormatMillis(int64_t millis);

// `30s`, `15m`, `1h30m`, `500ms`, `1.5s`; a unit is needed, except for 0. Not negative, at most
// 10,000 years (what a protobuf Duration holds).
absl::StatusOr<absl::Duration> ParseDuration(absl::string_view text);

}  // namespace capstan::resource

#endif  // CAPSTAN_LIBS_RESOURCE_QUANTITY_H_
