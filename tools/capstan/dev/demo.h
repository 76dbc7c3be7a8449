#ifndef CAPSTAN_TOOLS_CAPSTAN_DEV_DEMO_H_
#define CAPSTAN_TOOLS_CAPSTAN_DEV_DEMO_H_

#include "absl/status/status.h"
#include "tools/capstan/cli/invocation.h"
#include "tools/capstan/dev/demo_steps.h"

namespace capstan::dev {

// The whole way once: starts a platform unless one runs, brings the digits into a local bucket and
// a Dataset, submits the Job, shows how it goes, and measures the committed model on images that
// the Job never saw. Ctrl-C at any stage stops the platform (unless it ran before, or `keep`) and
// leaves nothing behind.
absl::Status RunDemo(const DemoOptions& options, cli::Invocation& invocation);

}  // namespace capstan::dev

#endif  // CAPSTAN_TOOLS_CAPSTAN_DEV_DEMO_H_
