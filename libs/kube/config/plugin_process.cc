#include "libs/kube/config/plugin_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "libs/kube/config/printable.h"
#include "libs/safe_path/safe_path.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"

namespace capstan::kube {
namespace {

// Of standard error: what is kept of it, and what is shown.
constexpr size_t kKeptErrorBytes = 4096;
constexpr size_t kShownErrorLines = 5;
constexpr size_t kShownErrorBytes = 1024;
// The injected clock may run apart from poll's.
constexpr absl::Duration kLongestPoll = absl::Seconds(1);

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

absl::StatusOr<Pipe> MakePipe() {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return ErrnoStatus(errno, "pipe", "");
  Pipe pipe{UniqueFd(fds[0]), UniqueFd(fds[1])};
  fcntl(pipe.read.get(), F_SETFL, O_NONBLOCK);
  return pipe;
}

std::vector<char*> Pointers(std::vector<std::string>* words) {
  std::vector<char*> pointers;
  for (std::string& word : *words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Starts the program as the leader of a process group.
absl::StatusOr<pid_t> Spawn(const PluginCommand& command, int out, int err) {
  std::vector<std::string> words = {command.name};
  words.insert(words.end(), command.args.begin(), command.args.end());
  std::vector<std::string> variables;
  for (const auto& [name, value] : command.environment) {
    variables.push_back(absl::StrCat(name, "=", value));
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  const absl::Cleanup destroy = [&] {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  };
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err, STDERR_FILENO);
  posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
  // Our threads block signals, and ignore some: neither is for a program of others to inherit.
  sigset_t none;
  sigset_t all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, command.program.c_str(), &actions, &attributes,
                                Pointers(&words).data(), Pointers(&variables).data());
  if (error != 0) {
    return status::Error(absl::StatusCode::kUnavailable, "KUBE_PLUGIN_FAILED",
                         absl::StrCat("the credential plugin `", absl::CHexEscape(command.name),
                                      "` cannot be started: ", strerror(error)));
  }
  return pid;
}

// A program that runs: ended and reaped when this goes.
class Running {
 public:
  Running(pid_t pid, UniqueFd out, UniqueFd err)
      : pid_(pid),
        process_(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))),
        out_(std::move(out)),
        err_(std::move(err)) {}
  ~Running() {
    if (!reaped_) {
      // The leader is not reaped yet, so the group's number is still its own.
      kill(-pid_, SIGKILL);
      Reap();
    }
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  bool valid() const { return process_.valid(); }
  bool ended() const { return ended_; }
  const std::string& output() const { return output_; }
  std::string* mutable_output() { return &output_; }
  const std::string& errors() const { return errors_; }

  // Waits for anything new. False once `stop_fd` is readable.
  bool Poll(int stop_fd, absl::Duration at_most) {
    // The 1 ms more is for the deadline to have passed.
    const absl::Duration wait = std::min(at_most, kLongestPoll) + absl::Milliseconds(1);
    pollfd fds[] = {{stop_fd, POLLIN, 0},
                    {process_.get(), POLLIN, 0},
                    {out_.get(), POLLIN, 0},
                    {err_.get(), POLLIN, 0}};
    if (poll(fds, 4, static_cast<int>(absl::ToInt64Milliseconds(wait))) < 0) return true;
    ended_ = fds[1].revents != 0;
    return fds[0].revents == 0;
  }

  // Takes what is there, of standard output up to a byte more than `most`.
  void Read(size_t most) {
    char buffer[16384];
    while (out_.valid() && output_.size() <= most) {
      const ssize_t n =
          read(out_.get(), buffer, std::min(sizeof buffer, most + 1 - output_.size()));
      if (!Took(n, &out_)) break;
      output_.append(buffer, static_cast<size_t>(n));
    }
    // A few times at most, for who writes without end.
    for (int i = 0; i < 16 && err_.valid(); ++i) {
      const ssize_t n = read(err_.get(), buffer, sizeof buffer);
      if (!Took(n, &err_)) break;
      errors_.append(buffer, static_cast<size_t>(n));
      if (errors_.size() > kKeptErrorBytes) errors_.erase(0, errors_.size() - kKeptErrorBytes);
    }
  }

  // After it has ended: as waitpid says, or -1.
  int Reap() {
    int status = -1;
    while (waitpid(pid_, &status, 0) < 0) {
      if (errno == EINTR) continue;
      status = -1;
      break;
    }
    reaped_ = true;
    return status;
  }

 private:
  // Closes at the end, so that poll does not return for it again and again.
  static bool Took(ssize_t n, UniqueFd* fd) {
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) fd->Reset(-1);
    return n > 0;
  }

  const pid_t pid_;
  const UniqueFd process_;
  UniqueFd out_;
  UniqueFd err_;
  std::string output_;
  std::string errors_;
  bool ended_ = false;
  bool reaped_ = false;
};

// The last lines.
std::string Shown(absl::string_view errors) {
  std::vector<std::string> lines;
  for (const absl::string_view line : absl::StrSplit(errors, '\n')) {
    const std::string printable = Printable(line);
    if (!absl::StripAsciiWhitespace(printable).empty()) lines.push_back(printable);
  }
  if (lines.size() > kShownErrorLines) lines.erase(lines.begin(), lines.end() - kShownErrorLines);
  std::string shown = absl::StrJoin(lines, " / ");
  if (shown.size() > kShownErrorBytes) {
    shown = Printable(absl::StrCat("...", shown.substr(shown.size() - kShownErrorBytes)));
  }
  return shown;
}

absl::Status Failed(const PluginCommand& command, const Running& running, absl::StatusCode code,
                    absl::string_view reason, absl::string_view what) {
  const std::string shown = Shown(running.errors());
  return status::Error(code, reason,
                       absl::StrCat("the credential plugin `", absl::CHexEscape(command.name), "` ",
                                    what, shown.empty() ? "" : "; it said: ", shown));
}

}  // namespace

std::string FindProgram(const std::string& command, absl::string_view path) {
  if (absl::StrContains(command, "/")) {
    return access(command.c_str(), X_OK) == 0 ? command : std::string();
  }
  for (const absl::string_view folder : absl::StrSplit(path, ':')) {
    // Whoever may write to the folder that we happen to be in must not choose what is run.
    if (!absl::StartsWith(folder, "/")) continue;
    const std::string file = absl::StrCat(folder, "/", command);
    struct stat found{};
    if (stat(file.c_str(), &found) == 0 && S_ISREG(found.st_mode) &&
        access(file.c_str(), X_OK) == 0) {
      return file;
    }
  }
  return "";
}

absl::StatusOr<std::string> RunPlugin(const PluginCommand& command, const PluginLimits& limits,
                                      int stop_fd, const Clock& clock) {
  CAPSTAN_ASSIGN_OR_RETURN(Pipe out, MakePipe());
  CAPSTAN_ASSIGN_OR_RETURN(Pipe err, MakePipe());
  const BootTime deadline = clock.Read().boot + limits.time;
  CAPSTAN_ASSIGN_OR_RETURN(const pid_t pid, Spawn(command, out.write.get(), err.write.get()));
  out.write.Reset(-1);
  err.write.Reset(-1);
  Running running(pid, std::move(out.read), std::move(err.read));
  if (!running.valid()) {
    return Failed(command, running, absl::StatusCode::kUnavailable, "KUBE_PLUGIN_FAILED",
                  "cannot be watched");
  }
  while (!running.ended()) {
    const absl::Duration left = deadline - clock.Read().boot;
    if (left <= absl::ZeroDuration()) {
      return Failed(command, running, absl::StatusCode::kDeadlineExceeded, "KUBE_PLUGIN_TIMED_OUT",
                    absl::StrCat("has not ended within ", absl::FormatDuration(limits.time),
                                 " and was killed; is it waiting for a person?"));
    }
    if (!running.Poll(stop_fd, left)) {
      return Failed(command, running, absl::StatusCode::kCancelled, "KUBE_CREDENTIAL_STOPPED",
                    "was ended, since the client is being shut down");
    }
    // After it has ended this takes the rest.
    running.Read(limits.output_bytes);
    if (running.output().size() > limits.output_bytes) {
      return Failed(command, running, absl::StatusCode::kOutOfRange, "KUBE_PLUGIN_BAD_OUTPUT",
                    absl::StrCat("writes more than ", limits.output_bytes,
                                 " bytes to standard output, and was killed"));
    }
  }
  const int status = running.Reap();
  if (status == 0) return std::move(*running.mutable_output());
  std::string end = "has ended, and how could not be told";
  if (status != -1 && WIFEXITED(status)) {
    end = absl::StrCat("failed with exit status ", WEXITSTATUS(status));
  } else if (status != -1 && WIFSIGNALED(status)) {
    end = absl::StrCat("was ended by signal ", WTERMSIG(status));
  }
  return Failed(command, running, absl::StatusCode::kUnavailable, "KUBE_PLUGIN_FAILED", end);
}

}  // namespace capstan::kube
