#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_JOB_TOP_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_JOB_TOP_H_

#include <string>

#include "absl/status/status.h"
#include "tools/capstan/cli/invocation.h"
#include "tools/capstan/cli/usage_table.h"

namespace capstan::cli {

struct TopOptions {
  std::string name;
  // Print and end, also on a terminal.
  bool once = false;
  UsageOrder order = UsageOrder::kRank;
};

// Shows what the Job's Tasks use: on a terminal until the Job has ended, elsewhere once. A Job that
// runs no Task is said to, and is no error.
absl::Status TopJob(const TopOptions& options, Invocation& invocation);

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_JOB_TOP_H_
