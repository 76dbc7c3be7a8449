#include "services/node_agent/shim/task_init.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "services/node_agent/shim/sandbox.h"

namespace capstan::node_agent {
namespace {

using capstan::nodeagent::v1::ShimSpec;

constexpr int kInitFailed = 125;
constexpr int kExecFailed = 127;

class TaskInit {
 public:
  TaskInit(const ShimSpec& spec, const std::string& root, InitPipes pipes)
      : spec_(spec), root_(root), pipes_(pipes) {}

  [[noreturn]] void Run() {
    DieWithShim();
    CloseOthers();
    // SIGTERM is to be passed on, SIGCHLD to be waited for; blocked, neither is lost.
    sigfillset(&all_);
    sigprocmask(SIG_SETMASK, &all_, nullptr);
    if (spec_.user_namespace()) AwaitWord(kUserNamespaceMapped);
    Require(CheckMounts());
    umask(022);
    if (spec_.namespaces()) Require(EnterPrivateRoot(spec_, root_));
    if (!spec_.namespaces()) prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    Require(DropRights(spec_));
    // Changing credentials cleared it. A shim that died before this shows in the pipe.
    DieWithShim();
    Report(InitReport::kReady, 0, "");
    AwaitWord(kStartProgram);
    program_ = fork();
    if (program_ == 0) Exec();
    if (program_ < 0) Fail(absl::StrCat("fork: ", strerror(errno)), kInitFailed);
    CloseOutput();
    Wait();
  }

 private:
  // Without a mount namespace everything is seen where it lies.
  absl::Status CheckMounts() {
    for (const ShimSpec::Mount& mount : spec_.mounts()) {
      if (!spec_.namespaces() && mount.source() != mount.target()) {
        return absl::FailedPreconditionError(
            absl::StrCat("mounting at ", mount.target(), " needs namespaces"));
      }
    }
    return absl::OkStatus();
  }

  static void DieWithShim() { prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0); }

  // Keeps only the pipes: the shim's lock, log and timers must not live on in a Task.
  void CloseOthers() {
    const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    dup2(null, 0);
    std::vector<unsigned> keep = {0, 1, 2};
    for (int fd : {pipes_.words, pipes_.reports, pipes_.out, pipes_.err}) {
      keep.push_back(static_cast<unsigned>(fd));
    }
    std::sort(keep.begin(), keep.end());
    for (size_t i = 0; i < keep.size(); ++i) {
      const unsigned first = keep[i] + 1;
      const unsigned last = i + 1 < keep.size() ? keep[i + 1] - 1 : ~0u;
      if (first <= last) close_range(first, last, 0);
    }
  }

  void CloseOutput() {
    close(pipes_.out);
    close(pipes_.err);
  }

  void AwaitWord(char word) {
    char got = 0;
    ssize_t n;
    do {
      n = read(pipes_.words, &got, 1);
    } while (n < 0 && errno == EINTR);
    if (n != 1 || got != word) _exit(kInitFailed);
  }

  void Report(InitReport::Kind kind, int32_t value, const std::string& text) {
    InitReport report{};
    report.kind = kind;
    report.value = value;
    text.copy(report.text, sizeof report.text - 1);
    // At most PIPE_BUF bytes: whole or not at all.
    if (write(pipes_.reports, &report, sizeof report) != sizeof report) _exit(kInitFailed);
  }

  [[noreturn]] void Fail(const std::string& message, int code) {
    Report(InitReport::kFailed, 0, message);
    _exit(code);
  }

  void Require(const absl::Status& status) {
    if (!status.ok()) Fail(std::string(status.message()), kInitFailed);
  }

  [[noreturn]] void Exec() {
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    setsid();
    if (chdir(spec_.working_directory().c_str()) != 0) {
      Fail(absl::StrCat("working directory ", spec_.working_directory(), ": ", strerror(errno)),
           kExecFailed);
    }
    std::vector<char*> argv, env;
    for (const std::string& word : spec_.argv()) argv.push_back(const_cast<char*>(word.c_str()));
    for (const std::string& word : spec_.env()) env.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    env.push_back(nullptr);
    if (argv.front() == nullptr) Fail("argv is empty", kExecFailed);
    // Ignored signals would be inherited: a shim ignores SIGPIPE, a Task's program must not.
    for (int number = 1; number < NSIG; ++number) signal(number, SIG_DFL);
    // The one opened at first is the machine's, not the private root's.
    const int null = open("/dev/null", O_RDONLY);
    if (null >= 0) dup2(null, 0);
    dup2(pipes_.out, 1);
    dup2(pipes_.err, 2);
    close_range(3, ~0u, CLOSE_RANGE_CLOEXEC);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    execve(argv.front(), argv.data(), env.data());
    Fail(absl::StrCat("exec ", spec_.argv(0), ": ", strerror(errno)), kExecFailed);
  }

  [[noreturn]] void Wait() {
    while (true) {
      siginfo_t info;
      const int number = sigwaitinfo(&all_, &info);
      if (number == SIGTERM) Terminate();
      if (number != SIGCHLD) continue;
      int status = 0;
      pid_t pid;
      while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid != program_) continue;
        Report(InitReport::kEnded, status, "");
        _exit(0);
      }
    }
  }

  void Terminate() {
    // ESRCH: the program has not made its group yet.
    if (kill(-program_, SIGTERM) != 0) kill(program_, SIGTERM);
  }

  const ShimSpec& spec_;
  const std::string& root_;
  const InitPipes pipes_;
  sigset_t all_;
  pid_t program_ = -1;
};

}  // namespace

void RunTaskInit(const ShimSpec& spec, const std::string& root, InitPipes pipes) {
  TaskInit(spec, root, pipes).Run();
}

}  // namespace capstan::node_agent
