#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/lifecycle/signal_thread.h"
#include "libs/log/log.h"
#include "libs/log/spdlog_sink.h"
#include "libs/safe_path/safe_path.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "tools/capstan/cli/exit_code.h"
#include "tools/capstan/dev/data_folder.h"
#include "tools/capstan/dev/dev_commands.h"
#include "tools/capstan/dev/leftovers.h"
#include "tools/capstan/dev/part_config.h"
#include "tools/capstan/dev/parts.h"
#include "tools/capstan/dev/platform_config.h"
#include "tools/capstan/dev/process.h"
#include "tools/capstan/dev/supervisor.h"
#include "tools/capstan/dev/welcome.h"

namespace capstan::dev {
namespace {

// How long parts of a dead supervisor get to end before a new platform takes over.
constexpr absl::Duration kTakeOverBound = absl::Seconds(10);

// What the parts get of the person's environment. Nothing of it reaches a Task.
std::vector<std::string> PartEnvironment() {
  std::vector<std::string> environment;
  for (const char* name : {"PATH", "HOME", "LANG", "TZ", "TMPDIR", "ASAN_OPTIONS"}) {
    if (const char* value = getenv(name)) environment.push_back(absl::StrCat(name, "=", value));
  }
  return environment;
}

// A process that has said that it is ready, or has ended without.
absl::Status WaitForDetached(pid_t child, UniqueFd ready, const std::string& log_file) {
  char byte = 0;
  ssize_t n;
  do {
    n = read(ready.get(), &byte, 1);
  } while (n < 0 && errno == EINTR);
  if (n == 1) return absl::OkStatus();
  waitpid(child, nullptr, 0);
  std::string last;
  const UniqueFd fd(open(log_file.c_str(), O_RDONLY | O_CLOEXEC));
  if (const auto text = ReadAll(fd.get(), 1 << 20, log_file); text.ok()) last = *text;
  return status::Error(absl::StatusCode::kUnavailable, "PLATFORM_NOT_STARTED",
                       absl::StrCat("the platform did not start:\n", last));
}

// Makes this process the detached one, or waits as the one that the person started. Sets `*ready`
// in the detached one; absent status means: go on as the platform.
absl::optional<absl::Status> Detach(const std::string& log_file, UniqueFd* ready) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return ErrnoStatus(errno, "making a pipe to", "the platform");
  UniqueFd read_end(ends[0]);
  ready->Reset(ends[1]);
  const UniqueFd log(open(log_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  const UniqueFd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const pid_t child = fork();
  if (child < 0) return ErrnoStatus(errno, "forking", "the platform");
  if (child > 0) {
    ready->Reset(-1);
    return WaitForDetached(child, std::move(read_end), log_file);
  }
  setsid();
  dup2(null.get(), STDIN_FILENO);
  dup2(log.get(), STDOUT_FILENO);
  dup2(log.get(), STDERR_FILENO);
  return absl::nullopt;
}

// Everything from the lock to the end of the last part.
absl::Status RunPlatform(const UpOptions& options, cli::Invocation& invocation, UniqueFd ready) {
  CAPSTAN_ASSIGN_OR_RETURN(const DataFolder folder, DataFolder::Own(invocation.data_dir));
  const std::string& data_dir = folder.path();
  if (access(UnfinishedRestoreFile(data_dir).c_str(), F_OK) == 0) {
    return UnfinishedRestore(data_dir);
  }
  if (!options.config_file.empty()) {
    CAPSTAN_RETURN_IF_ERROR(InstallPlatformConfig(options.config_file, data_dir));
  }
  const std::vector<std::string> leftovers =
      StopLeftovers(data_dir, /*keep_tasks=*/true, kTakeOverBound, kTakeOverBound);
  CAPSTAN_ASSIGN_OR_RETURN(const cli::v1::PlatformConfig config, ReadPlatformConfig(data_dir));
  CAPSTAN_RETURN_IF_ERROR(MakePartFolders(data_dir, config));
  CAPSTAN_ASSIGN_OR_RETURN(cli::v1::Endpoints endpoints,
                           KeepEndpoints(data_dir, config, /*may_replace=*/true));
  CAPSTAN_RETURN_IF_ERROR(WritePartConfigs(data_dir, config, endpoints, getuid()));
  CAPSTAN_ASSIGN_OR_RETURN(
      const std::unique_ptr<log::Sink> sink,
      log::MakeFileSink({.path = absl::StrCat(LogFolder(data_dir), "/supervisor.log"),
                         .format = log::Format::kHuman}));
  const log::Logger logger("supervisor", invocation.clock, sink.get());
  for (const std::string& part : leftovers) {
    logger.Warning("stopped a part of a former run", {{"part", part}});
  }

  int signal_pipe[2];
  if (pipe2(signal_pipe, O_CLOEXEC | O_NONBLOCK) != 0) {
    return ErrnoStatus(errno, "making a pipe for", "signals");
  }
  const UniqueFd signal_read(signal_pipe[0]);
  const UniqueFd signal_write(signal_pipe[1]);
  CAPSTAN_ASSIGN_OR_RETURN(
      const auto signals,
      lifecycle::SignalThread::Create({SIGINT, SIGTERM, SIGHUP, kKeepTasksSignal}, [&](int signal) {
        const char byte = static_cast<char>(signal);
        // A full pipe holds enough signals already.
        [[maybe_unused]] const ssize_t written = write(signal_write.get(), &byte, 1);
      }));

  SupervisorOptions supervisor_options;
  supervisor_options.data_dir = data_dir;
  supervisor_options.environment = PartEnvironment();
  supervisor_options.programs = options.programs;
  supervisor_options.parts = PartsOf(config);
  CAPSTAN_ASSIGN_OR_RETURN(supervisor_options.program, OwnProgram());
  const auto own = FindProcess(getpid());
  if (own.has_value()) {
    CAPSTAN_RETURN_IF_ERROR(WritePidFile(PidFile(data_dir, "supervisor"), *own));
  }

  // Speaks to the services, so it must not hold up the supervisor.
  std::thread welcome;
  const auto on_ready = [&] {
    welcome = std::thread([&] {
      const absl::Status made = PrepareDefaults(invocation);
      if (!made.ok()) logger.Error("defaults not made", {{"error", made}});
      if (ready.valid()) {
        const char byte = 1;
        [[maybe_unused]] const ssize_t written = write(ready.get(), &byte, 1);
        ready.Reset(-1);
      } else {
        PrintWelcome(invocation);
        *invocation.out << "Ctrl-C stops it.\n" << std::flush;
      }
    });
  };
  const auto on_phase = [&](const std::string& phase) {
    *invocation.err << "capstan: " << phase << std::endl;
  };
  Supervisor supervisor(std::move(supervisor_options), std::move(endpoints), invocation.clock,
                        &logger, on_ready, on_phase);
  const absl::Status ran = supervisor.Run(signal_read.get());
  if (welcome.joinable()) welcome.join();
  RemoveRunFiles(data_dir);
  return ran;
}

}  // namespace

absl::Status DevUp(const UpOptions& options, cli::Invocation& invocation) {
  UniqueFd ready;
  if (options.detach) {
    if (!options.config_file.empty()) {
      CAPSTAN_RETURN_IF_ERROR(ReadNewPlatformConfig(options.config_file).status());
    }
    // Taken and given back, for a clear answer where the person sees it, and for the log's folder.
    CAPSTAN_RETURN_IF_ERROR(DataFolder::Own(invocation.data_dir).status());
    const auto done =
        Detach(absl::StrCat(LogFolder(invocation.data_dir), "/supervisor.out"), &ready);
    if (done.has_value()) {
      if (done->ok()) PrintWelcome(invocation);
      return *done;
    }
  } else {
    *invocation.err << "capstan: starting the platform in " << invocation.data_dir << std::endl;
  }
  return RunPlatform(options, invocation, std::move(ready));
}

}  // namespace capstan::dev
