#include "services/node_agent/adapters/shim_launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "libs/safe_path/safe_path.h"
#include "libs/status/error.h"
#include "services/node_agent/adapters/child_program.h"
#include "services/node_agent/shim/shim.h"

namespace capstan::node_agent {
namespace {

// In the forked child: see BecomeProgram.
[[noreturn]] void BecomeShim(char* const* argv, int lock, int errors) {
  setsid();
  const int null = open("/dev/null", O_RDWR);
  dup2(null, 0);
  dup2(null, 1);
  dup2(errors, 2);
  BecomeProgram(argv, lock, kLockFd);
}

}  // namespace

absl::StatusOr<pid_t> LaunchShim(const std::vector<std::string>& command,
                                 const std::string& folder) {
  const std::string lock_path = absl::StrCat(folder, "/", kLockFile);
  const std::string errors_path = absl::StrCat(folder, "/shim.err");
  UniqueFd lock(open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock.valid()) return ErrnoStatus(errno, "open", lock_path);
  if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    return status::Error(absl::StatusCode::kAlreadyExists, "TASK_STARTED",
                         absl::StrCat(folder, " has a shim"));
  }
  UniqueFd errors(open(errors_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!errors.valid()) return ErrnoStatus(errno, "open", errors_path);
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return ErrnoStatus(errno, "pipe", "");
  UniqueFd reader(fds[0]);
  UniqueFd writer(fds[1]);
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(const_cast<char*>(folder.c_str()));
  argv.push_back(nullptr);
  const pid_t child = fork();
  if (child < 0) return ErrnoStatus(errno, "fork", "");
  if (child == 0) {
    const pid_t shim = fork();
    if (shim == 0) BecomeShim(argv.data(), lock.get(), errors.get());
    const ssize_t said = shim > 0 ? write(writer.get(), &shim, sizeof shim) : -1;
    _exit(said == sizeof shim ? 0 : 1);
  }
  int exit_status = 0;
  while (waitpid(child, &exit_status, 0) < 0 && errno == EINTR) {
  }
  pid_t shim = 0;
  if (read(reader.get(), &shim, sizeof shim) != sizeof shim) {
    return status::Error(absl::StatusCode::kResourceExhausted, "FORK_FAILED",
                         "The machine has no room for another process.");
  }
  return shim;
}

}  // namespace capstan::node_agent
