#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_RESOURCE_NAMES_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_RESOURCE_NAMES_H_

#include "tools/capstan/cli/completion.h"
#include "tools/capstan/cli/invocation.h"

namespace capstan::cli {

// Asks the platform for names, for completion: at most 200 of a kind. Silent: where there is no
// platform, or it does not answer within 1.5 s, there are none. Asking for an identity that is not
// kept may take longer. The invocation must outlive it.
NameSource PlatformNames(const Invocation& invocation);

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_RESOURCE_NAMES_H_
