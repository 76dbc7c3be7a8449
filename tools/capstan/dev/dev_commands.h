// What the `dev` commands do.
#ifndef CAPSTAN_TOOLS_CAPSTAN_DEV_DEV_COMMANDS_H_
#define CAPSTAN_TOOLS_CAPSTAN_DEV_DEV_COMMANDS_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tools/capstan/cli/invocation.h"

namespace capstan::dev {

struct UpOptions {
  // Return once the platform is ready, and leave it running.
  bool detach = false;
  // A PlatformConfig to use from now on; empty keeps what the folder has.
  std::string config_file;
  // Folder of the services' own programs, one process each; empty: all are this program's `serve`.
  std::string programs;
};

// Starts the platform and, unless detached, stays until Ctrl-C.
absl::Status DevUp(const UpOptions& options, cli::Invocation& invocation);

struct DownOptions {
  // Leave the Tasks running under their shims, to be adopted by the next `dev up`.
  bool keep_tasks = false;
};

// Stops the platform of the data folder and waits until nothing of it is left. A platform whose
// supervisor is gone is stopped part by part. OK if there is none.
absl::Status DevDown(const DownOptions& options, cli::Invocation& invocation);

// Shows every part. Fails with ExitCode::kFailed unless all are ready.
absl::Status DevStatus(cli::Invocation& invocation);

// True if a supervisor runs in the data folder.
bool IsPlatformRunning(const std::string& data_dir);

}  // namespace capstan::dev

#endif  // CAPSTAN_TOOLS_CAPSTAN_DEV_DEV_COMMANDS_H_
