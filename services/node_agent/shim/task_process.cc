#include "services/node_agent/shim/task_process.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/status/status_macros.h"

namespace capstan::node_agent {
namespace {

using capstan::nodeagent::v1::ShimSpec;

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

absl::StatusOr<Pipe> MakePipe() {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return ErrnoStatus(errno, "pipe", "");
  return Pipe{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

absl::Status WriteOnce(const std::string& path, const std::string& text) {
  UniqueFd fd(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(errno, "open", path);
  if (write(fd.get(), text.data(), text.size()) < 0) return ErrnoStatus(errno, "write", path);
  return absl::OkStatus();
}

// One uid and gid, under the numbers they have outside.
absl::Status MapUser(pid_t pid) {
  const std::string folder = absl::StrCat("/proc/", pid);
  CAPSTAN_RETURN_IF_ERROR(WriteOnce(absl::StrCat(folder, "/setgroups"), "deny"));
  CAPSTAN_RETURN_IF_ERROR(
      WriteOnce(absl::StrCat(folder, "/uid_map"), absl::StrCat(geteuid(), " ", geteuid(), " 1")));
  return WriteOnce(absl::StrCat(folder, "/gid_map"), absl::StrCat(getegid(), " ", getegid(), " 1"));
}

void MakeNonBlocking(const UniqueFd& fd) { fcntl(fd.get(), F_SETFL, O_NONBLOCK); }

}  // namespace

absl::StatusOr<TaskProcess> TaskProcess::Fork(const ShimSpec& spec, const cgroup::Paths& group,
                                              const std::string& root) {
  CAPSTAN_ASSIGN_OR_RETURN(Pipe words, MakePipe());
  CAPSTAN_ASSIGN_OR_RETURN(Pipe reports, MakePipe());
  CAPSTAN_ASSIGN_OR_RETURN(Pipe out, MakePipe());
  CAPSTAN_ASSIGN_OR_RETURN(Pipe err, MakePipe());
  unsigned long flags = SIGCHLD;
  if (spec.namespaces()) flags |= CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC;
  if (spec.user_namespace()) flags |= CLONE_NEWUSER;
  // Like fork, into namespaces; safe since the shim has a single thread.
  const long pid = syscall(SYS_clone, flags, nullptr, nullptr, nullptr, 0);
  if (pid < 0) return ErrnoStatus(errno, "clone", "");
  if (pid == 0) {
    // A copy of the shim's end would keep the pipe open when the shim dies.
    words.write.Reset(-1);
    RunTaskInit(spec, root,
                InitPipes{words.read.get(), reports.write.get(), out.write.get(), err.write.get()});
  }
  TaskProcess task;
  task.pid_ = static_cast<pid_t>(pid);
  task.process_ = UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  task.words_ = std::move(words.write);
  task.reports_ = std::move(reports.read);
  task.out_ = std::move(out.read);
  task.err_ = std::move(err.read);
  MakeNonBlocking(task.reports_);
  MakeNonBlocking(task.out_);
  MakeNonBlocking(task.err_);
  // Before the program can run, so that it and all that it forks are in the group.
  absl::Status prepared =
      task.process_.valid() ? cgroup::Join(group, task.pid_) : ErrnoStatus(errno, "pidfd_open", "");
  if (prepared.ok() && spec.user_namespace()) {
    prepared = MapUser(task.pid_);
    if (prepared.ok() && write(task.words_.get(), &kUserNamespaceMapped, 1) != 1) {
      prepared = ErrnoStatus(errno, "write", "init's pipe");
    }
  }
  if (!prepared.ok()) {
    kill(task.pid_, SIGKILL);
    waitpid(task.pid_, nullptr, 0);
    return prepared;
  }
  return task;
}

absl::optional<InitReport> TaskProcess::ReadReport() {
  InitReport report;
  ssize_t n;
  do {
    n = read(reports_.get(), &report, sizeof report);
  } while (n < 0 && errno == EINTR);
  if (n != sizeof report) return absl::nullopt;
  report.text[sizeof report.text - 1] = '\0';
  return report;
}

void TaskProcess::StartProgram() {
  // EPIPE: init is dead, which its descriptor shows too.
  if (write(words_.get(), &kStartProgram, 1) != 1) KillInit();
}

void TaskProcess::Terminate() {
  if (!reaped_) kill(pid_, SIGTERM);
}

void TaskProcess::KillInit() {
  if (!reaped_) kill(pid_, SIGKILL);
}

bool TaskProcess::Reap() {
  if (!reaped_) reaped_ = waitpid(pid_, nullptr, WNOHANG) == pid_;
  return reaped_;
}

}  // namespace capstan::node_agent
