#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_DEMAND_TEXT_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_DEMAND_TEXT_H_

#include <string>

#include "absl/time/time.h"
#include "proto/capstan/scheduler/v1/demand.pb.h"
#include "tools/capstan/cli/output_format.h"
#include "tools/capstan/cli/terminal.h"

namespace capstan::cli {

// For people: a line a class, what is left out, and who is held back by what.
std::string DescribeDemand(const scheduler::v1::UnmetDemand& demand, absl::Time now,
                           const OutputOptions& output, const Terminal& terminal);

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_DEMAND_TEXT_H_
