#include "tools/capstan/dev/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <fstream>
#include <limits>
#include <sstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libs/lifecycle/signal_thread.h"
#include "libs/status/error.h"

namespace capstan::dev {
namespace {

// Where descriptors are parked between fork and exec, above every target number.
constexpr int kParkingFd = 100;

UniqueFd OpenPidfd(pid_t pid) {
  return UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
}

std::string ReadSmallFile(const std::string& path) {
  std::ifstream in(path);
  // Unlike iterators, this does not throw where a process ends while it is read.
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (const std::string& text : strings) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// In the child, between fork and exec: only async-signal-safe calls on what was made before.
[[noreturn]] void BecomeProgram(const std::vector<char*>& argv,
                                const std::vector<char*>& environment,
                                const std::vector<std::pair<int, int>>& descriptors, int output,
                                int null, int report) {
  setsid();
  lifecycle::UnblockSignals();
  int highest = STDERR_FILENO;
  // Two passes, so that no descriptor is overwritten before it is used.
  for (size_t i = 0; i < descriptors.size(); ++i) {
    dup2(descriptors[i].first, kParkingFd + static_cast<int>(i));
    highest = std::max(highest, descriptors[i].second);
  }
  const int parked_report = kParkingFd + static_cast<int>(descriptors.size());
  dup2(report, parked_report);
  fcntl(parked_report, F_SETFD, FD_CLOEXEC);
  dup2(null, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  for (size_t i = 0; i < descriptors.size(); ++i) {
    dup2(kParkingFd + static_cast<int>(i), descriptors[i].second);
  }
  // Everything but the standard streams, what was asked for, and the report (which exec closes).
  unsigned from = STDERR_FILENO + 1;
  while (from <= static_cast<unsigned>(highest)) {
    const bool wanted =
        std::any_of(descriptors.begin(), descriptors.end(),
                    [from](const auto& pair) { return pair.second == static_cast<int>(from); });
    if (!wanted) close(static_cast<int>(from));
    ++from;
  }
  syscall(SYS_close_range, from, parked_report - 1, 0);
  syscall(SYS_close_range, parked_report + 1, ~0U, 0);
  execve(argv[0], argv.data(), environment.data());
  const int error = errno;
  [[maybe_unused]] const ssize_t written = write(parked_report, &error, sizeof(error));
  _exit(127);
}

}  // namespace

absl::StatusOr<std::string> OwnProgram() {
  char path[PATH_MAX];
  const ssize_t n = readlink("/proc/self/exe", path, sizeof(path));
  if (n <= 0) return ErrnoStatus(errno, "reading", "/proc/self/exe");
  return std::string(path, static_cast<size_t>(n));
}

absl::optional<ProcessId> FindProcess(pid_t pid) {
  const std::string stat = ReadSmallFile(absl::StrCat("/proc/", pid, "/stat"));
  // The name in parentheses may hold anything; the fields after it do not.
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return absl::nullopt;
  const std::vector<std::string> fields = absl::StrSplit(stat.substr(name_end + 2), ' ');
  // Fields 3 (state) and 22 (start time) of the whole line.
  ProcessId id;
  id.pid = pid;
  if (fields.size() < 20 || fields[0] == "Z" || fields[0] == "X" ||
      !absl::SimpleAtoi(fields[19], &id.start_ticks)) {
    return absl::nullopt;
  }
  return id;
}

bool IsAlive(const ProcessId& process) {
  const absl::optional<ProcessId> now = FindProcess(process.pid);
  return now.has_value() && now->start_ticks == process.start_ticks;
}

absl::Status WritePidFile(const std::string& path, const ProcessId& process) {
  return WriteFileAtomically(path, absl::StrCat(process.pid, " ", process.start_ticks, "\n"), 0644);
}

absl::optional<ProcessId> ReadPidFile(const std::string& path) {
  const std::vector<std::string> words =
      absl::StrSplit(ReadSmallFile(path), absl::ByAnyChar(" \n"), absl::SkipEmpty());
  ProcessId id;
  if (words.size() != 2 || !absl::SimpleAtoi(words[0], &id.pid) ||
      !absl::SimpleAtoi(words[1], &id.start_ticks) || !IsAlive(id)) {
    return absl::nullopt;
  }
  return id;
}

void SignalProcess(const ProcessId& process, int signal) {
  // The descriptor holds on to the process; only then is its start time compared.
  const UniqueFd pidfd = OpenPidfd(process.pid);
  if (pidfd.valid() && IsAlive(process)) {
    syscall(SYS_pidfd_send_signal, pidfd.get(), signal, nullptr, 0);
  }
}

bool WaitForEnd(const ProcessId& process, absl::Duration time_out) {
  const UniqueFd pidfd = OpenPidfd(process.pid);
  if (!pidfd.valid() || !IsAlive(process)) return true;
  pollfd waiting = {.fd = pidfd.get(), .events = POLLIN, .revents = 0};
  const int ms = static_cast<int>(
      std::min<int64_t>(absl::ToInt64Milliseconds(time_out), std::numeric_limits<int>::max()));
  return poll(&waiting, 1, ms) == 1;
}

absl::StatusOr<Child> Child::Spawn(const SpawnOptions& options) {
  const UniqueFd output(
      open(options.output_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!output.valid()) return ErrnoStatus(errno, "opening", options.output_file);
  const UniqueFd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0) return ErrnoStatus(errno, "making a pipe for", "a child");
  const UniqueFd report_read(report[0]);
  UniqueFd report_write(report[1]);
  const std::vector<char*> argv = Pointers(options.argv);
  const std::vector<char*> environment = Pointers(options.environment);
  const pid_t pid = fork();
  if (pid < 0) return ErrnoStatus(errno, "forking for", options.argv[0]);
  if (pid == 0) {
    BecomeProgram(argv, environment, options.descriptors, output.get(), null.get(),
                  report_write.get());
  }
  report_write.Reset(-1);
  // Closed by a good exec; else it says what went wrong.
  int error = 0;
  ssize_t n;
  do {
    n = read(report_read.get(), &error, sizeof(error));
  } while (n < 0 && errno == EINTR);
  if (n == sizeof(error)) {
    waitpid(pid, nullptr, 0);
    return ErrnoStatus(error, "running", options.argv[0]);
  }
  UniqueFd pidfd = OpenPidfd(pid);
  if (!pidfd.valid()) return ErrnoStatus(errno, "pidfd_open of", options.argv[0]);
  ProcessId id;
  id.pid = pid;
  // A child that has ended already is reaped by the caller all the same.
  if (const auto found = FindProcess(pid)) id = *found;
  return Child(id, std::move(pidfd));
}

absl::optional<int> Child::TryReap() {
  int wait_status = 0;
  if (waitpid(id_.pid, &wait_status, WNOHANG) != id_.pid) return absl::nullopt;
  return wait_status;
}

std::string DescribeWaitStatus(int wait_status) {
  if (WIFEXITED(wait_status)) return absl::StrCat("exit code ", WEXITSTATUS(wait_status));
  const int signal = WTERMSIG(wait_status);
  return absl::StrCat("signal ", signal, " (", strsignal(signal), ")");
}

}  // namespace capstan::dev
