#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_SIMULATION_TEXT_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_SIMULATION_TEXT_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "proto/capstan/scheduler/v1/job_service.pb.h"
#include "tools/capstan/cli/terminal.h"

namespace capstan::cli {

// For `job simulate`: a row for each Job, named by what it was read from, then what the change of
// Nodes means for others if there is one.
std::string DescribeSimulation(const scheduler::v1::SimulatePlacementResponse& response,
                               const std::vector<std::string>& names, bool nodes_change,
                               absl::Time now, const Terminal& terminal);

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_SIMULATION_TEXT_H_
