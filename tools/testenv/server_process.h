#ifndef CAPSTAN_TOOLS_TESTENV_SERVER_PROCESS_H_
#define CAPSTAN_TOOLS_TESTENV_SERVER_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace capstan::testenv {

// A real server that a test runs, killed with the test however that ends. It says that it is ready
// by systemd's protocol (NOTIFY_SOCKET), so that no one polls it. For one thread, which must
// outlive the process: the kernel kills it with the thread that started it.
class ServerProcess {
 public:
  // Starts `command` (its first word is the program's path); what it prints is appended to
  // `log_file`. It sees the variables of `environment` ("NAME=value") and no others of ours. Does
  // not wait for it.
  static absl::StatusOr<std::unique_ptr<ServerProcess>> Start(
      const std::vector<std::string>& command, const std::string& log_file,
      const std::vector<std::string>& environment = {});
  // SIGKILL, and waits for its end.
  ~ServerProcess();
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  // Waits until it is ready. UNAVAILABLE if it ends before, DEADLINE_EXCEEDED; both with the end of
  // its log.
  absl::Status WaitReady(absl::Duration patience);

  void Stop();
  void Continue();
  pid_t pid() const { return pid_; }

 private:
  ServerProcess(pid_t pid, int pidfd, int notify, std::string log_file)
      : pid_(pid), pidfd_(pidfd), notify_(notify), log_file_(std::move(log_file)) {}
  std::string LogEnd() const;

  const pid_t pid_;
  const int pidfd_;
  const int notify_;
  const std::string log_file_;
};

}  // namespace capstan::testenv

#endif  // CAPSTAN_TOOLS_TESTENV_SERVER_PROCESS_H_
