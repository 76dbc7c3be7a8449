#ifndef CAPSTAN_TOOLS_CAPSTAN_DEV_DEMO_STEPS_H_
#define CAPSTAN_TOOLS_CAPSTAN_DEV_DEMO_STEPS_H_

#include <string>

#include "absl/status/status.h"
#include "tools/capstan/cli/invocation.h"

namespace capstan::dev {

struct DemoOptions {
  // Leave the platform running.
  bool keep = false;
  // Folder of the example; empty looks for `examples/digits` from the working folder upwards.
  std::string example;
  // Interpreter of the example's own scripts.
  std::string python = "/usr/bin/python3";
};

// What the demo does on a running platform; see RunDemo. `example` is the example's folder.
absl::Status RunDemoSteps(const DemoOptions& options, const std::string& example,
                          cli::Invocation& invocation);

}  // namespace capstan::dev

#endif  // CAPSTAN_TOOLS_CAPSTAN_DEV_DEMO_STEPS_H_
