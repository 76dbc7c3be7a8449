#include "services/node_agent/shim/shim.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/crash_point/crash_point.h"
#include "libs/crash_point/points.h"
#include "libs/safe_path/replace_file.h"
#include "libs/safe_path/safe_path.h"
#include "libs/status/status_macros.h"
#include "services/node_agent/core/shim_deadline.h"
#include "services/node_agent/shim/log_spill.h"
#include "services/node_agent/shim/process_identity.h"
#include "services/node_agent/shim/task_process.h"

namespace capstan::node_agent {
namespace {

using capstan::nodeagent::v1::ShimControl;
using capstan::nodeagent::v1::ShimSpec;
using capstan::nodeagent::v1::ShimStatus;

constexpr size_t kFileLimit = 4 << 20;
constexpr size_t kReadSize = 64 << 10;
// Between two attempts at what has no event: a group under v1 becoming empty, a full disk.
constexpr int kRetryMs = 20;
constexpr int kStatusRetryMs = 200;

template <typename Message>
absl::StatusOr<Message> ReadMessage(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(errno, "open", path);
  CAPSTAN_ASSIGN_OR_RETURN(const std::string bytes, ReadAll(fd.get(), kFileLimit, path));
  Message message;
  if (!message.ParseFromString(bytes)) return absl::DataLossError(absl::StrCat(path, ": damaged"));
  return message;
}

class Shim {
 public:
  Shim(std::string folder, ShimSpec spec, const Clock& clock)
      : folder_(std::move(folder)),
        spec_(std::move(spec)),
        clock_(clock),
        group_(GroupOf(spec_.cgroup())),
        deadline_(spec_),
        log_(Path(kLogFolder), spec_.log_limit_bytes(), &clock) {}

  absl::Status Run() {
    CAPSTAN_RETURN_IF_ERROR(OpenDescriptors());
    status_.set_shim_pid(getpid());
    status_.set_shim_start_ticks(ProcessStartTicks(getpid()));
    status_.set_deadline_boottime_ns(deadline_.deadline().ToNanoseconds());
    CAPSTAN_RETURN_IF_ERROR(WriteStatus());
    CrashPoint(crash::kShimRecorded);
    absl::StatusOr<TaskProcess> task = TaskProcess::Fork(spec_, group_, Path(kRootFolder));
    if (!task.ok()) {
      program_.exec_failed = true;
      program_.message = std::string(task.status().message());
      return RecordEnd();
    }
    CrashPoint(crash::kShimForked);
    Loop(*task);
    return RecordEnd();
  }

 private:
  std::string Path(const char* name) const { return absl::StrCat(folder_, "/", name); }
  BootTime Boot() const { return clock_.Read().boot; }

  absl::Status OpenDescriptors() {
    timer_ = UniqueFd(timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC));
    inotify_ = UniqueFd(inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
    if (!timer_.valid() || !inotify_.valid()) return ErrnoStatus(errno, "open descriptors", "");
    if (inotify_add_watch(inotify_.get(), folder_.c_str(), IN_MOVED_TO | IN_CREATE) < 0) {
      return ErrnoStatus(errno, "inotify_add_watch", folder_);
    }
    populated_ = cgroup::OpenPopulatedEvents(group_);
    return absl::OkStatus();
  }

  absl::Status WriteStatus() {
    return WriteFileAtomically(Path(kStatusFile), status_.SerializeAsString(), 0600);
  }

  // Until init is reaped and the group is empty.
  void Loop(TaskProcess& task) {
    ReadControl(task);
    while (true) {
      ArmTimer();
      // Once the kill is out, or only leftovers are waited for, it is repeated until nothing is
      // left.
      const bool leftover = task.Reap();
      if (leftover || killing_) EndEverything(task);
      if (leftover && cgroup::IsEmpty(group_)) break;
      pollfd fds[] = {{timer_.get(), POLLIN, 0},
                      {inotify_.get(), POLLIN, 0},
                      {task.report_fd(), POLLIN, 0},
                      {task.process_fd(), POLLIN, 0},
                      {out_open_ ? task.out_fd() : -1, POLLIN, 0},
                      {err_open_ ? task.err_fd() : -1, POLLIN, 0},
                      {leftover ? populated_.get() : -1, POLLPRI, 0}};
      if (leftover) fds[2].fd = fds[3].fd = -1;
      if (reports_closed_) fds[2].fd = -1;
      poll(fds, std::size(fds), leftover || killing_ ? kRetryMs : -1);
      if (fds[4].revents != 0) out_open_ = Pump(task.out_fd(), 1);
      if (fds[5].revents != 0) err_open_ = Pump(task.err_fd(), 2);
      // Before the controls: a program that has ended by itself was not stopped.
      if (fds[2].revents != 0) TakeReports(task);
      if (fds[1].revents != 0) ReadControl(task);
      if (fds[0].revents != 0) Tick(task);
    }
    TakeReports(task);
    while (out_open_ && Pump(task.out_fd(), 1) && HasInput(task.out_fd())) {
    }
    while (err_open_ && Pump(task.err_fd(), 2) && HasInput(task.err_fd())) {
    }
    log_.Flush();
    if (!ended_ && !program_.exec_failed) {
      // Init itself was killed, from outside or for want of memory.
      program_.signaled = true;
      program_.code = SIGKILL;
      Settle();
    }
  }

  static bool HasInput(int fd) {
    pollfd poll_fd{fd, POLLIN, 0};
    return poll(&poll_fd, 1, 0) == 1 && (poll_fd.revents & POLLIN) != 0;
  }

  // False at the end of the stream.
  bool Pump(int fd, int stream) {
    char buffer[kReadSize];
    const ssize_t n = read(fd, buffer, sizeof buffer);
    if (n > 0) {
      log_.Write(stream, absl::string_view(buffer, static_cast<size_t>(n)));
      CrashPoint(crash::kShimLinesWritten);
    }
    return n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN));
  }

  void TakeReports(TaskProcess& task) {
    bool any = false;
    while (const absl::optional<InitReport> report = task.ReadReport()) {
      any = true;
      if (report->kind == InitReport::kReady) Start(task);
      if (report->kind == InitReport::kFailed) {
        program_.exec_failed = true;
        program_.message = report->text;
        Settle();
      }
      if (report->kind == InitReport::kEnded && !program_.exec_failed) {
        program_.signaled = WIFSIGNALED(report->value);
        program_.code = program_.signaled ? WTERMSIG(report->value) : WEXITSTATUS(report->value);
        Settle();
      }
    }
    // Without anything to read it is the end of the pipe; its descriptor shows init's end.
    if (!any) reports_closed_ = true;
  }

  // Init is in its group and has tied its life to ours.
  void Start(TaskProcess& task) {
    status_.set_task_pid(task.pid());
    status_.set_task_start_ticks(ProcessStartTicks(task.pid()));
    status_.set_start_boottime_ns(Boot().ToNanoseconds());
    // On disk before the program runs: an agent that finds a running Task must find its pid.
    const absl::Status written = WriteStatus();
    if (!written.ok()) {
      program_.exec_failed = true;
      program_.message = absl::StrCat("cannot record the start: ", std::string(written.message()));
      Settle();
      task.Abandon();
      return;
    }
    CrashPoint(crash::kShimStartRecorded);
    ReadControl(task);
    Tick(task);
    // The agent makes the mark before it looks at the group, in which init already is.
    if (access(Path(kKilledFile).c_str(), F_OK) == 0 || deadline_.ending()) {
      task.Abandon();
      return;
    }
    started_ = true;
    task.StartProgram();
    CrashPoint(crash::kShimStarted);
  }

  void ReadControl(TaskProcess& task) {
    alignas(inotify_event) char events[4096];
    while (read(inotify_.get(), events, sizeof events) > 0) {
    }
    const absl::StatusOr<ShimControl> control = ReadMessage<ShimControl>(Path(kControlFile));
    if (!control.ok()) return;
    Act(deadline_.OnControl(*control, Boot()), task);
    const int64_t deadline = deadline_.deadline().ToNanoseconds();
    if (deadline == status_.deadline_boottime_ns()) return;
    status_.set_deadline_boottime_ns(deadline);
    // Only for an agent that looks while this boot lasts. One that misses it ends the Task early.
    (void)ReplaceFile(Path(kStatusFile), status_.SerializeAsString());
  }

  void Tick(TaskProcess& task) {
    uint64_t expirations;
    if (read(timer_.get(), &expirations, sizeof expirations) < 0 && errno != EAGAIN) return;
    Act(deadline_.OnTick(Boot()), task);
  }

  void Act(const ShimActions& actions, TaskProcess& task) {
    if (actions.terminate) {
      if (started_) {
        task.Terminate();
      } else {
        task.Abandon();
      }
    }
    if (actions.kill) {
      killing_ = true;
      EndEverything(task);
    }
  }

  void EndEverything(TaskProcess& task) {
    task.KillInit();
    (void)cgroup::Kill(group_);
  }

  void ArmTimer() {
    itimerspec spec{};
    if (const absl::optional<BootTime> next = deadline_.NextTick()) {
      // 0 would disarm it.
      const int64_t ns = std::max<int64_t>(1, next->ToNanoseconds());
      spec.it_value.tv_sec = ns / 1000000000;
      spec.it_value.tv_nsec = ns % 1000000000;
    }
    timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &spec, nullptr);
  }

  // Why the Task ended is decided by what had been done to it when its program ended.
  void Settle() {
    if (ended_) return;
    ended_ = true;
    program_.out_of_memory_kills = cgroup::OutOfMemoryKills(group_);
    program_.killed_by_agent = access(Path(kKilledFile).c_str(), F_OK) == 0;
    *status_.mutable_end() = deadline_.Classify(program_);
  }

  absl::Status RecordEnd() {
    Settle();
    status_.set_end_boottime_ns(Boot().ToNanoseconds());
    CrashPoint(crash::kShimEnded);
    while (true) {
      const absl::Status written = WriteStatus();
      if (written.ok()) CrashPoint(crash::kShimEndRecorded);
      // A folder that has been removed expects no word any more.
      if (written.ok() || access(folder_.c_str(), F_OK) != 0) return absl::OkStatus();
      poll(nullptr, 0, kStatusRetryMs);
    }
  }

  const std::string folder_;
  const ShimSpec spec_;
  const Clock& clock_;
  const cgroup::Paths group_;
  ShimDeadline deadline_;
  LogSpill log_;
  ShimStatus status_;
  UniqueFd timer_;
  UniqueFd inotify_;
  UniqueFd populated_;
  ProgramEnd program_;
  bool started_ = false;
  bool killing_ = false;
  bool ended_ = false;
  bool out_open_ = true;
  bool err_open_ = true;
  bool reports_closed_ = false;
};

// False if another shim has the folder.
bool TakeLock(const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/", kLockFile);
  struct stat inherited, named;
  // Inherited, so that there is no moment at which a forked shim is not seen to live.
  if (fstat(kLockFd, &inherited) == 0 && stat(path.c_str(), &named) == 0 &&
      inherited.st_dev == named.st_dev && inherited.st_ino == named.st_ino) {
    fcntl(kLockFd, F_SETFD, FD_CLOEXEC);
    return flock(kLockFd, LOCK_EX | LOCK_NB) == 0;
  }
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0;
}

}  // namespace

cgroup::Paths GroupOf(const ShimSpec::Cgroup& group) {
  return cgroup::Paths{group.v2(), group.v1_freezer(), group.v1_cpu(), group.v1_memory()};
}

int RunShim(const std::string& folder, const Clock& clock) {
  prctl(PR_SET_NAME, "capstan-shim", 0, 0, 0);
  signal(SIGPIPE, SIG_IGN);
  umask(077);
  if (!TakeLock(folder)) {
    fprintf(stderr, "capstan shim: %s has a shim already\n", folder.c_str());
    return 1;
  }
  CrashPoint(crash::kShimLocked);
  const std::string status_path = absl::StrCat(folder, "/", kStatusFile);
  if (access(status_path.c_str(), F_OK) == 0) {
    fprintf(stderr, "capstan shim: the Task in %s was started before\n", folder.c_str());
    return 1;
  }
  absl::StatusOr<ShimSpec> spec = ReadMessage<ShimSpec>(absl::StrCat(folder, "/", kSpecFile));
  if (spec.ok() && geteuid() == 0 && spec->unix_uid() <= 0) {
    spec = absl::FailedPreconditionError("as root a Task needs a Unix uid");
  }
  for (const char* name : {kLogFolder, kRootFolder}) {
    const std::string path = absl::StrCat(folder, "/", name);
    if (spec.ok() && mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
      spec = ErrnoStatus(errno, "mkdir", path);
    }
  }
  absl::Status result = spec.status();
  if (spec.ok()) result = Shim(folder, *std::move(spec), clock).Run();
  if (result.ok()) return 0;
  fprintf(stderr, "capstan shim: %s\n", std::string(result.message()).c_str());
  return 1;
}

}  // namespace capstan::node_agent
