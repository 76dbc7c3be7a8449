#ifndef CAPSTAN_TOOLS_CAPSTAN_DEV_WELCOME_H_
#define CAPSTAN_TOOLS_CAPSTAN_DEV_WELCOME_H_

#include "absl/status/status.h"
#include "tools/capstan/cli/invocation.h"

namespace capstan::dev {

// Makes the project `default` and the queue `default` unless they are there.
absl::Status PrepareDefaults(const cli::Invocation& invocation);

// Lists the Nodes, and says loudly what they cannot promise.
void PrintNodes(const cli::Invocation& invocation);

// Says what runs and how to go on, and loudly what this machine cannot promise.
void PrintWelcome(const cli::Invocation& invocation);

}  // namespace capstan::dev

#endif  // CAPSTAN_TOOLS_CAPSTAN_DEV_WELCOME_H_
