#ifndef CAPSTAN_TOOLS_FLEET_SIMULATOR_TRACE_READER_H_
#define CAPSTAN_TOOLS_FLEET_SIMULATOR_TRACE_READER_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tools/fleet_simulator/workload.h"

namespace capstan::fleet_simulator {

// Reads Jobs from CSV. The first line names the columns, in any order; others are passed over:
//
//   submit_s             seconds since the beginning, at least 0
//   tasks                1 to 100000
//   gpus_per_task        1 to the GPUs of a node
//   runtime_s            seconds, above 0
//   queue                optional; a name; `default` if there is no such column
//   priority             optional; a whole number, higher goes first; 0
//   declared_s           optional; empty: nothing was declared
//   checkpoint_period_s  optional; empty: no checkpoints
//
// Fields are without quotes and commas. Queues weigh the same and share 60 % of the fleet as
// guarantees. Lines need not be in order. INVALID_ARGUMENT names line, column, what was found and
// what was expected. At most kMaxTraceJobs lines.
absl::StatusOr<Workload> ReadTrace(absl::string_view csv, const FleetSize& fleet);

inline constexpr int kMaxTraceJobs = 5'000'000;

}  // namespace capstan::fleet_simulator

#endif  // CAPSTAN_TOOLS_FLEET_SIMULATOR_TRACE_READER_H_
