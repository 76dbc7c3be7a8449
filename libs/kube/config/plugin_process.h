#ifndef CAPSTAN_LIBS_KUBE_CONFIG_PLUGIN_PROCESS_H_
#define CAPSTAN_LIBS_KUBE_CONFIG_PLUGIN_PROCESS_H_

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/time/clock.h"

namespace capstan::kube {

struct PluginCommand {
  // A path; what it is called in argv and errors is `name`.
  std::string program;
  std::string name;
  std::vector<std::string> args;
  // All of it.
  std::map<std::string, std::string> environment;
};

struct PluginLimits {
  absl::Duration time = absl::Seconds(60);
  size_t output_bytes = 1 << 20;
};

// The file that `command` stands for: itself if it has a slash, else the first of that name which
// may be run in the folders of `path`, as PATH has them; relative ones are passed over. Empty if
// there is none.
std::string FindProgram(const std::string& command, absl::string_view path);

// Runs the program, without a shell, with an empty standard input, no terminal's signals, no
// descriptors of ours, and signals as they are by default, and returns what it wrote to standard
// output. Blocks until it has ended, or a limit is reached, or `stop_fd` is readable; then it is
// killed with all of its process group. What it leaves behind when it ends by itself is left alone.
//
// Errors hold the last lines of its standard error, printable, and nothing of standard output:
// UNAVAILABLE, reason KUBE_PLUGIN_FAILED, if it cannot be started or its exit status is not 0;
// DEADLINE_EXCEEDED, reason KUBE_PLUGIN_TIMED_OUT; OUT_OF_RANGE, reason KUBE_PLUGIN_BAD_OUTPUT, if
// it writes too much; CANCELLED, reason KUBE_CREDENTIAL_STOPPED.
absl::StatusOr<std::string> RunPlugin(const PluginCommand& command, const PluginLimits& limits,
                                      int stop_fd, const Clock& clock);

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_CONFIG_PLUGIN_PROCESS_H_
