#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_INVOCATION_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_INVOCATION_H_

#include <functional>
#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "libs/random/random.h"
#include "libs/time/clock.h"
#include "tools/capstan/cli/output_format.h"
#include "tools/capstan/cli/terminal.h"

namespace capstan::cli {

// One run of the command: its global options and its world. Main makes it; commands take it.
struct Invocation {
  // Folder of the platform that is spoken to.
  std::string data_dir;
  // Id of the Project that bare names lie in.
  std::string project = "default";
  OutputOptions output;
  // Bound of each unary call, retries included.
  absl::Duration time_out = absl::Seconds(15);

  const Clock* clock = nullptr;
  Random* random = nullptr;
  std::ostream* out = nullptr;
  std::ostream* err = nullptr;
  Terminal out_terminal;
  Terminal err_terminal;
};

// What the chosen command does.
using Act = std::function<absl::Status(Invocation&)>;

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_INVOCATION_H_
