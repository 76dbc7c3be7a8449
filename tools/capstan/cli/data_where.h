#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_DATA_WHERE_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_DATA_WHERE_H_

#include <string>

#include "absl/status/status.h"
#include "tools/capstan/cli/invocation.h"

namespace capstan::cli {

// Shows where a version is: at the Site and in Nodes' caches, how far, and who holds it. `name` is
// a Dataset's, whose newest version is meant unless `version` names one, or a version's own.
absl::Status ShowVersionSites(const std::string& name, const std::string& version,
                              Invocation& invocation);

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_DATA_WHERE_H_
