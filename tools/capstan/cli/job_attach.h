// What people do inside a running Task: run a command, connect to a port.
#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_JOB_ATTACH_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_JOB_ATTACH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/capstan/cli/invocation.h"

namespace capstan::cli {

struct ExecOptions {
  std::string name;
  int rank = 0;
  // Give it our standard input.
  bool with_input = false;
  // Give it a terminal of the size of ours, which is raw meanwhile.
  bool terminal = false;
  std::vector<std::string> argv;
};
// Runs a command in a Task. Its exit code is the program's: see command_exit.h.
absl::Status ExecInJob(const ExecOptions& options, Invocation& invocation);

struct PortPair {
  // 0 takes a free one.
  uint16_t local = 0;
  uint16_t remote = 0;
};
// `8080` or `9000:8080`; `:8080` takes a free local port. INVALID_ARGUMENT otherwise.
absl::StatusOr<PortPair> ParsePortPair(const std::string& text);

struct ForwardOptions {
  std::string name;
  int rank = 0;
  std::vector<std::string> ports;
};
// Listens on 127.0.0.1 and passes connections on to a Task's ports, until Ctrl-C.
absl::Status ForwardPorts(const ForwardOptions& options, Invocation& invocation);

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_JOB_ATTACH_H_
