#include "tools/testenv/server_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"

namespace capstan::testenv {
namespace {

constexpr size_t kLogEndBytes = 4000;

// A datagram socket under a name that the kernel picks; `name` gets it as NOTIFY_SOCKET has it.
int OpenNotifySocket(std::string* name) {
  const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  socklen_t length = sizeof(address.sun_family);
  if (::bind(fd, reinterpret_cast<sockaddr*>(&address), length) != 0) {
    ::close(fd);
    return -1;
  }
  length = sizeof(address);
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
  const size_t bytes = length - offsetof(sockaddr_un, sun_path);
  *name = absl::StrCat("@", std::string(address.sun_path + 1, bytes - 1));
  return fd;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ServerProcess>> ServerProcess::Start(
    const std::vector<std::string>& command, const std::string& log_file,
    const std::vector<std::string>& environment) {
  std::string notify_name;
  const int notify = OpenNotifySocket(&notify_name);
  if (notify < 0) return absl::ErrnoToStatus(errno, "notify socket");
  const int log = ::open(log_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (log < 0) {
    ::close(notify);
    return absl::ErrnoToStatus(errno, log_file);
  }

  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  std::string notify_variable = absl::StrCat("NOTIFY_SOCKET=", notify_name);
  std::vector<char*> variables = {notify_variable.data()};
  for (const std::string& one : environment) variables.push_back(const_cast<char*>(one.c_str()));
  variables.push_back(nullptr);

  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) {
    // Only calls that are safe after a fork of many threads.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(126);
    ::dup2(log, 1);
    ::dup2(log, 2);
    ::execve(arguments[0], arguments.data(), variables.data());
    ::_exit(127);
  }
  const int error = errno;
  ::close(log);
  if (pid < 0) {
    ::close(notify);
    return absl::ErrnoToStatus(error, "fork");
  }
  const int pidfd = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  return std::unique_ptr<ServerProcess>(new ServerProcess(pid, pidfd, notify, log_file));
}

ServerProcess::~ServerProcess() {
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  ::close(pidfd_);
  ::close(notify_);
}

void ServerProcess::Stop() { ::kill(pid_, SIGSTOP); }
void ServerProcess::Continue() { ::kill(pid_, SIGCONT); }

absl::Status ServerProcess::WaitReady(absl::Duration patience) {
  pollfd events[] = {{notify_, POLLIN, 0}, {pidfd_, POLLIN, 0}};
  const int ready = ::poll(events, 2, static_cast<int>(absl::ToInt64Milliseconds(patience)));
  if (ready == 0) {
    return absl::DeadlineExceededError(absl::StrCat(
        "not ready after ", absl::FormatDuration(patience), "; its log ends:\n", LogEnd()));
  }
  if ((events[0].revents & POLLIN) != 0) {
    char message[64];
    static_cast<void>(::recv(notify_, message, sizeof(message), 0));
    return absl::OkStatus();
  }
  return absl::UnavailableError(absl::StrCat("it ended; its log ends:\n", LogEnd()));
}

std::string ServerProcess::LogEnd() const {
  std::ifstream file(log_file_);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  return text.substr(text.size() - std::min(text.size(), kLogEndBytes));
}

}  // namespace capstan::testenv
