#ifndef CAPSTAN_LIBS_KUBE_EXEC_RUN_IN_POD_H_
#define CAPSTAN_LIBS_KUBE_EXEC_RUN_IN_POD_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/kube/exec/web_socket.h"

namespace capstan::kube {

// RESOURCE_EXHAUSTED: the command wrote more than `max_output_bytes`.
inline constexpr char kOutputTooLarge[] = "KUBE_OUTPUT_TOO_LARGE";

struct RunOptions {
  // Empty: the only one.
  std::string container;
  // The program and its arguments, which no shell sees.
  std::vector<std::string> command;
  // Empty: it has no stdin. Else that is closed after it, which takes Kubernetes 1.30.
  std::string input;
  absl::Duration timeout = absl::Minutes(1);
  // Of stdout and stderr together.
  size_t max_output_bytes = size_t{16} << 20;
};

struct RunResult {
  // 128 and its number if a signal ended it.
  int exit_code = 0;
  // Of stdout and of stderr.
  std::string output;
  std::string errors;
};

// Runs a command and waits for its end; never from the dialer's thread. An exit code other than 0
// is no error. Errors are those of RemoteCommandHandler::OnEnd, with kTimedOut after `timeout`, and
// kOutputTooLarge; the command may go on then.
absl::StatusOr<RunResult> RunInPod(WebSocketDialer* dialer, absl::string_view ns,
                                   absl::string_view pod, const RunOptions& options);

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_EXEC_RUN_IN_POD_H_
