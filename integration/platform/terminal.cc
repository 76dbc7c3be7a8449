#include "integration/platform/terminal.h"

#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libs/time/system_clock.h"

namespace capstan::integration {
namespace {

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (const std::string& text : strings) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

std::unique_ptr<Terminal> Terminal::Start(const std::vector<std::string>& argv,
                                          const std::vector<std::string>& environment) {
  // Made before the fork: afterwards only what is safe in a signal handler may be called.
  const std::vector<char*> arguments = Pointers(argv);
  const std::vector<char*> variables = Pointers(environment);
  const winsize size = {.ws_row = 40, .ws_col = 100, .ws_xpixel = 0, .ws_ypixel = 0};
  int master = -1;
  const pid_t pid = forkpty(&master, nullptr, nullptr, &size);
  if (pid < 0) return nullptr;
  if (pid == 0) {
    execve(arguments[0], arguments.data(), variables.data());
    _exit(127);
  }
  return std::unique_ptr<Terminal>(new Terminal(pid, UniqueFd(master)));
}

Terminal::~Terminal() {
  if (pid_ == 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void Terminal::Type(absl::string_view keys) {
  // A few bytes always fit into the terminal's queue.
  if (write(master_.get(), keys.data(), keys.size()) < 0) shown_ += "<not typed>";
}

bool Terminal::Read(absl::Duration at_most) {
  pollfd waiting = {.fd = master_.get(), .events = POLLIN, .revents = 0};
  const int ms = static_cast<int>(absl::ToInt64Milliseconds(at_most));
  if (ms <= 0 || poll(&waiting, 1, ms) <= 0) return false;
  char buffer[4096];
  // EIO once the last process with the terminal has closed it.
  const ssize_t count = read(master_.get(), buffer, sizeof(buffer));
  if (count <= 0) return false;
  shown_.append(buffer, static_cast<size_t>(count));
  return true;
}

bool Terminal::AwaitText(absl::string_view text, absl::Duration time_out) {
  const SystemClock clock;
  const BootTime deadline = clock.Read().boot + time_out;
  while (shown_.find(text.data(), 0, text.size()) == std::string::npos) {
    if (!Read(deadline - clock.Read().boot)) return false;
  }
  return true;
}

int Terminal::Finish(absl::Duration time_out) {
  const SystemClock clock;
  const BootTime deadline = clock.Read().boot + time_out;
  while (Read(deadline - clock.Read().boot)) {
  }
  if (clock.Read().boot >= deadline) return -1;
  int wait_status = 0;
  waitpid(pid_, &wait_status, 0);
  pid_ = 0;
  return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : -1;
}

}  // namespace capstan::integration
