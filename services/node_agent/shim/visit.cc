#include "services/node_agent/shim/visit.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/cgroup/cgroup.h"
#include "libs/safe_path/safe_path.h"
#include "libs/status/status_macros.h"
#include "proto/capstan/nodeagent/v1/shim.pb.h"
#include "proto/capstan/telemetry/v1/task_session.pb.h"
#include "services/node_agent/shim/process_identity.h"
#include "services/node_agent/shim/sandbox.h"
#include "services/node_agent/shim/shim.h"

namespace capstan::node_agent {
namespace {

using capstan::nodeagent::v1::ShimSpec;
using capstan::nodeagent::v1::ShimStatus;
using capstan::telemetry::v1::TaskCommand;

constexpr int kNotRun = 126;
constexpr int kNotFound = 127;
constexpr int kSignalled = 128;
// Of the agent's message: its words are at most 64 KiB.
constexpr size_t kMostRequestBytes = 128 << 10;
constexpr int kEmptyPollMs = 10;

template <typename Message>
absl::StatusOr<Message> ReadMessage(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  Message message;
  if (!file || !message.ParseFromString(bytes.str())) {
    return absl::NotFoundError(absl::StrCat("cannot read ", path));
  }
  return message;
}

absl::StatusOr<TaskCommand> ReadRequest() {
  std::string bytes(kMostRequestBytes, '\0');
  ssize_t got;
  do {
    got = recv(kVisitFd, bytes.data(), bytes.size(), 0);
  } while (got < 0 && errno == EINTR);
  TaskCommand command;
  if (got <= 0 || !command.ParseFromArray(bytes.data(), static_cast<int>(got)) ||
      command.argv_size() == 0) {
    return absl::InvalidArgumentError("no command");
  }
  return command;
}

// A group below the Task's, so that what the command leaves behind can be ended. The Task's limits
// hold for it.
class VisitGroup {
 public:
  static absl::StatusOr<VisitGroup> Make(const ShimSpec::Cgroup& task) {
    VisitGroup group;
    const std::string name = absl::StrCat("/visit-", getpid());
    group.paths_.v1_cpu = task.v1_cpu();
    group.paths_.v1_memory = task.v1_memory();
    for (const auto& [above, own] : {std::pair{&task.v2(), &group.paths_.v2},
                                     {&task.v1_freezer(), &group.paths_.v1_freezer}}) {
      if (above->empty()) continue;
      *own = absl::StrCat(*above, name);
      if (mkdir(own->c_str(), 0755) != 0) return ErrnoStatus(errno, "mkdir", *own);
    }
    return group;
  }

  absl::Status Join(pid_t pid) const { return cgroup::Join(paths_, pid); }

  void End() const {
    if (!paths_.fences()) return;
    cgroup::Paths own;
    own.v2 = paths_.v2;
    own.v1_freezer = paths_.v1_freezer;
    while (!cgroup::IsEmpty(own)) {
      cgroup::Kill(own).IgnoreError();
      poll(nullptr, 0, kEmptyPollMs);
    }
    // Not there any more if the Task has gone with its groups.
    if (!own.v2.empty()) rmdir(own.v2.c_str());
    if (!own.v1_freezer.empty()) rmdir(own.v1_freezer.c_str());
  }

 private:
  cgroup::Paths paths_;
};

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

absl::StatusOr<Pipe> MakePipe() {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return ErrnoStatus(errno, "pipe", "");
  return Pipe{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

// What the child says before exec: nothing more follows if exec succeeds.
struct ChildReport {
  // 0: everything is in place; else the exit code.
  int32_t exit_code;
  char text[512];
};

class Child {
 public:
  Child(const ShimSpec& spec, const TaskCommand& command, int init, int words, int reports)
      : spec_(spec), command_(command), init_(init), words_(words), reports_(reports) {}

  [[noreturn]] void Run() {
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    // In the group from here on.
    AwaitWord();
    if (spec_.namespaces() && setns(init_, CLONE_NEWNS | CLONE_NEWIPC) != 0) Fail("setns", kNotRun);
    setsid();
    if (command_.has_terminal() && ioctl(0, TIOCSCTTY, 0) != 0) Fail("terminal", kNotRun);
    umask(022);
    const absl::Status dropped = DropRights(spec_);
    if (!dropped.ok()) Report(kNotRun, std::string(dropped.message()));
    // Changing credentials cleared it; a parent that died before shows as the end of its pipe.
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    Say(0, "");
    AwaitWord();
    if (chdir(spec_.working_directory().c_str()) != 0) Fail(spec_.working_directory(), kNotRun);
    Exec();
  }

 private:
  void AwaitWord() {
    char word;
    ssize_t got;
    do {
      got = read(words_, &word, 1);
    } while (got < 0 && errno == EINTR);
    if (got != 1) _exit(kNotRun);
  }

  void Say(int32_t exit_code, const std::string& text) {
    ChildReport report = {};
    report.exit_code = exit_code;
    text.copy(report.text, sizeof report.text - 1);
    if (write(reports_, &report, sizeof report) != sizeof report) _exit(kNotRun);
  }

  [[noreturn]] void Report(int exit_code, const std::string& text) {
    Say(exit_code, text);
    _exit(exit_code);
  }

  [[noreturn]] void Fail(const std::string& what, int exit_code) {
    Report(exit_code, absl::StrCat(what, ": ", strerror(errno)));
  }

  [[noreturn]] void Exec() {
    std::vector<std::string> env(spec_.env().begin(), spec_.env().end());
    const bool has_term = std::any_of(env.begin(), env.end(), [](const std::string& variable) {
      return absl::StartsWith(variable, "TERM=");
    });
    if (command_.has_terminal() && !has_term) env.emplace_back("TERM=xterm");
    std::vector<char*> argv;
    std::vector<char*> variables;
    for (const std::string& word : command_.argv()) argv.push_back(const_cast<char*>(word.c_str()));
    for (std::string& variable : env) variables.push_back(variable.data());
    argv.push_back(nullptr);
    variables.push_back(nullptr);
    // The program is looked for in the Task's PATH.
    environ = variables.data();
    for (int number = 1; number < NSIG; ++number) signal(number, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    close_range(3, ~0u, CLOSE_RANGE_CLOEXEC);
    execvp(argv.front(), argv.data());
    Fail(command_.argv(0), errno == ENOENT ? kNotFound : kNotRun);
  }

  const ShimSpec& spec_;
  const TaskCommand& command_;
  const int init_;
  const int words_;
  const int reports_;
};

int ExitCodeOf(int wait_status) {
  return WIFSIGNALED(wait_status) ? kSignalled + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

void Tell(const std::string& text) {
  (void)!send(kVisitFd, text.data(), text.size(), MSG_NOSIGNAL);
}

class Visit {
 public:
  explicit Visit(std::string folder) : folder_(std::move(folder)) {}

  absl::StatusOr<int> Run() {
    CAPSTAN_ASSIGN_OR_RETURN(const TaskCommand command, ReadRequest());
    CAPSTAN_ASSIGN_OR_RETURN(const auto spec,
                             ReadMessage<ShimSpec>(absl::StrCat(folder_, "/", kSpecFile)));
    CAPSTAN_ASSIGN_OR_RETURN(const auto status,
                             ReadMessage<ShimStatus>(absl::StrCat(folder_, "/", kStatusFile)));
    if (spec.user_namespace()) {
      return absl::UnimplementedError("the Node's agent does not run as root");
    }
    const UniqueFd init =
        OpenProcess(static_cast<pid_t>(status.task_pid()), status.task_start_ticks());
    if (status.has_end() || status.task_pid() == 0 || !init.valid()) {
      return absl::FailedPreconditionError("the Task does not run");
    }
    // Programs open it again by /proc/self/fd, as the Task's uid.
    if (command.has_terminal() && spec.unix_uid() > 0 &&
        fchown(0, static_cast<uid_t>(spec.unix_uid()), static_cast<gid_t>(-1)) != 0) {
      return ErrnoStatus(errno, "chown", "the terminal");
    }
    // For what is forked from here on.
    if (spec.namespaces() && setns(init.get(), CLONE_NEWPID) != 0) {
      return ErrnoStatus(errno, "setns", "");
    }
    CAPSTAN_ASSIGN_OR_RETURN(const VisitGroup group, VisitGroup::Make(spec.cgroup()));
    absl::StatusOr<int> code = RunIn(spec, command, group, init);
    group.End();
    return code;
  }

 private:
  static absl::StatusOr<int> RunIn(const ShimSpec& spec, const TaskCommand& command,
                                   const VisitGroup& group, const UniqueFd& init) {
    CAPSTAN_ASSIGN_OR_RETURN(Pipe words, MakePipe());
    CAPSTAN_ASSIGN_OR_RETURN(Pipe reports, MakePipe());
    const pid_t pid = fork();
    if (pid < 0) return ErrnoStatus(errno, "fork", "");
    if (pid == 0) {
      words.write.Reset(-1);
      reports.read.Reset(-1);
      Child(spec, command, init.get(), words.read.get(), reports.write.get()).Run();
    }
    reports.write.Reset(-1);
    LetGoOfStreams();
    const UniqueFd process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    const absl::Status joined = group.Join(pid);
    if (!joined.ok()) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
      return joined;
    }
    ChildReport report = {};
    if (write(words.write.get(), "j", 1) == 1)
      (void)!read(reports.read.get(), &report, sizeof report);
    if (report.exit_code == 0) {
      (void)!write(words.write.get(), "x", 1);
      // Ends when exec has closed it; what comes before is a failure.
      (void)!read(reports.read.get(), &report, sizeof report);
    }
    const int wait_status = Wait(pid, process, group);
    report.text[sizeof report.text - 1] = '\0';
    if (report.exit_code == 0) return ExitCodeOf(wait_status);
    Tell(report.text);
    return report.exit_code;
  }

  // The command's own copies must be the last, or no end of file would be seen.
  static void LetGoOfStreams() {
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd <= 2; ++fd) dup2(null, fd);
    close(null);
  }

  // Until the command has ended, by itself or since the agent has let go.
  static int Wait(pid_t pid, const UniqueFd& process, const VisitGroup& group) {
    pollfd polled[2] = {{process.get(), POLLIN, 0}, {kVisitFd, POLLIN | POLLRDHUP, 0}};
    while (poll(polled, 2, -1) < 0 && errno == EINTR) {
    }
    if (polled[0].revents == 0) {
      kill(pid, SIGKILL);
      group.End();
    }
    int wait_status = 0;
    while (waitpid(pid, &wait_status, 0) < 0 && errno == EINTR) {
    }
    return wait_status;
  }

  const std::string folder_;
};

}  // namespace

int RunVisit(const std::string& folder) {
  const absl::StatusOr<int> code = Visit(folder).Run();
  if (code.ok()) return *code;
  Tell(std::string(code.status().message()));
  return kNotRun;
}

}  // namespace capstan::node_agent
