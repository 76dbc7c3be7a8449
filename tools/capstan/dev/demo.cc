#include "tools/capstan/dev/demo.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/lifecycle/signal_thread.h"
#include "libs/safe_path/safe_path.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "tools/capstan/cli/exit_code.h"
#include "tools/capstan/dev/demo_steps.h"
#include "tools/capstan/dev/dev_commands.h"
#include "tools/capstan/dev/process.h"

namespace capstan::dev {
namespace {

// `examples/digits`, from the working folder upwards.
absl::StatusOr<std::string> FindExample(const std::string& given) {
  char here[PATH_MAX];
  if (getcwd(here, sizeof(here)) == nullptr) return ErrnoStatus(errno, "reading", "the folder");
  std::string folder = here;
  struct stat info = {};
  while (given.empty()) {
    const std::string candidate = absl::StrCat(folder, "/examples/digits");
    if (stat(absl::StrCat(candidate, "/train.yaml").c_str(), &info) == 0) return candidate;
    if (folder.empty()) break;
    folder.resize(folder.rfind('/'));
  }
  if (!given.empty() && stat(absl::StrCat(given, "/train.yaml").c_str(), &info) == 0) return given;
  return status::Error(absl::StatusCode::kNotFound, "NO_EXAMPLE",
                       "there is no examples/digits/train.yaml here or above; name the example's "
                       "folder with --example");
}

// Runs `capstan dev up --detach` to its end, in a session of its own, so that a Ctrl-C meanwhile
// waits for it instead of tearing it down half-way.
absl::Status StartPlatform(cli::Invocation& invocation) {
  *invocation.err << "demo: starting the platform in " << invocation.data_dir << std::endl;
  char output[] = "/tmp/capstan-demo-XXXXXX";
  const UniqueFd file(mkostemp(output, O_CLOEXEC));
  if (!file.valid()) return ErrnoStatus(errno, "making", output);
  SpawnOptions spawn;
  CAPSTAN_ASSIGN_OR_RETURN(const std::string program, OwnProgram());
  spawn.argv = {program, "dev", "up", "--detach", absl::StrCat("--data-dir=", invocation.data_dir)};
  for (char** variable = environ; *variable != nullptr; ++variable) {
    spawn.environment.emplace_back(*variable);
  }
  spawn.output_file = output;
  absl::StatusOr<Child> child = Child::Spawn(spawn);
  int wait_status = 0;
  if (child.ok()) waitpid(child->id().pid, &wait_status, 0);
  const auto text = ReadAll(file.get(), 1 << 20, output);
  unlink(output);
  if (!child.ok()) return child.status();
  if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0) return absl::OkStatus();
  return status::Error(absl::StatusCode::kUnavailable, "PLATFORM_NOT_STARTED",
                       absl::StrCat("the platform did not start (", DescribeWaitStatus(wait_status),
                                    "):\n", text.ok() ? *text : ""));
}

// The steps, in a child that any signal ends: this process stays to clear up. The steps' exit code,
// or the signal that came.
struct Outcome {
  int exit_code = 0;
  int signal = 0;
};

Outcome RunSteps(const DemoOptions& options, const std::string& example, const sigset_t& blocked,
                 cli::Invocation& invocation) {
  invocation.out->flush();
  invocation.err->flush();
  const pid_t child = fork();
  if (child == 0) {
    lifecycle::UnblockSignals();
    const absl::Status done = RunDemoSteps(options, example, invocation);
    invocation.out->flush();
    if (!done.ok()) *invocation.err << cli::DescribeError(done) << std::flush;
    _exit(static_cast<int>(cli::ExitCodeOf(done)));
  }
  Outcome outcome;
  while (true) {
    const int signal = sigwaitinfo(&blocked, nullptr);
    int wait_status = 0;
    if (signal == SIGCHLD && waitpid(child, &wait_status, WNOHANG) == child) {
      outcome.exit_code = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status)
                                                 : static_cast<int>(cli::ExitCode::kInternal);
      return outcome;
    }
    if (signal == SIGINT || signal == SIGTERM || signal == SIGHUP) {
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
      outcome.signal = signal;
      return outcome;
    }
  }
}

absl::Status ToStatus(const Outcome& outcome) {
  if (outcome.signal != 0) {
    return status::Error(absl::StatusCode::kCancelled, "INTERRUPTED", "the demo was interrupted");
  }
  if (outcome.exit_code != 0) return cli::Failed("the demo did not succeed");
  return absl::OkStatus();
}

}  // namespace

absl::Status RunDemo(const DemoOptions& options, cli::Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const std::string example, FindExample(options.example));
  sigset_t blocked;
  sigemptyset(&blocked);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) sigaddset(&blocked, signal);
  sigprocmask(SIG_BLOCK, &blocked, nullptr);

  const bool was_running = IsPlatformRunning(invocation.data_dir);
  if (!was_running) CAPSTAN_RETURN_IF_ERROR(StartPlatform(invocation));
  const Outcome outcome = RunSteps(options, example, blocked, invocation);
  if (was_running || options.keep) {
    if (outcome.signal == 0) {
      *invocation.out << "The platform stays up; stop it with `capstan dev down`.\n";
    }
    return ToStatus(outcome);
  }
  CAPSTAN_RETURN_IF_ERROR(DevDown({}, invocation));
  return ToStatus(outcome);
}

}  // namespace capstan::dev
