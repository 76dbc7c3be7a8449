#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_JOB_SIMULATE_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_JOB_SIMULATE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tools/capstan/cli/invocation.h"

namespace capstan::cli {

struct SimulateOptions {
  // Submit files, `-` is standard input.
  std::vector<std::string> files;
  // `COUNT=NODE`: so many like that one.
  std::vector<std::string> add_nodes;
  // Nodes.
  std::vector<std::string> remove;
  std::vector<std::string> cordon;
  std::vector<std::string> uncordon;
};

// `job simulate`: says what would happen, and uploads and stores nothing.
absl::Status SimulateJobs(const SimulateOptions& options, Invocation& invocation);

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_JOB_SIMULATE_H_
