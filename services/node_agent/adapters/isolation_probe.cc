#include "services/node_agent/adapters/isolation_probe.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "absl/strings/ascii.h"
#include "libs/safe_path/safe_path.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "services/node_agent/shim/shim_command.h"

namespace capstan::node_agent {
namespace {

using capstan::type::v1::NodeObservation;

constexpr size_t kReasonLimit = 4096;

struct Finished {
  int exit_code = -1;
  std::string errors;
};

absl::StatusOr<Finished> Run(std::vector<std::string> words) {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return ErrnoStatus(errno, "pipe", "");
  UniqueFd reader(fds[0]);
  UniqueFd writer(fds[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, writer.get(), STDERR_FILENO);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  char* const no_environment[] = {nullptr};
  pid_t pid = 0;
  const int error = posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), no_environment);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return ErrnoStatus(error, "start", words[0]);
  writer.Reset(-1);
  Finished finished;
  char buffer[512];
  ssize_t n;
  while ((n = read(reader.get(), buffer, sizeof buffer)) != 0) {
    if (n < 0 && errno != EINTR) break;
    if (n > 0 && finished.errors.size() < kReasonLimit) {
      finished.errors.append(buffer, static_cast<size_t>(n));
    }
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status)) finished.exit_code = WEXITSTATUS(status);
  return finished;
}

}  // namespace

absl::StatusOr<ProbedIsolation> ProbeIsolation(const std::vector<std::string>& shim_command,
                                               const std::string& scratch,
                                               const cgroup::Tree& groups) {
  if (mkdir(scratch.c_str(), 0700) != 0 && errno != EEXIST) {
    return ErrnoStatus(errno, "mkdir", scratch);
  }
  std::vector<std::string> words = shim_command;
  words.push_back("--probe");
  words.push_back(scratch);
  CAPSTAN_ASSIGN_OR_RETURN(const Finished finished, Run(std::move(words)));
  rmdir(scratch.c_str());
  if (finished.exit_code != kProbeIsolates && finished.exit_code != kProbeNothing) {
    return status::Error(absl::StatusCode::kInternal, "SHIM_UNUSABLE",
                         "the shim command does not work: " + finished.errors);
  }
  const bool root = geteuid() == 0;
  ProbedIsolation probed;
  probed.isolation.namespaces = finished.exit_code == kProbeIsolates;
  probed.isolation.user_namespace = probed.isolation.namespaces && !root;
  if (!probed.isolation.namespaces) {
    probed.reason = std::string(absl::StripAsciiWhitespace(finished.errors));
  }
  if (!groups.limits()) {
    probed.limitations.push_back(NodeObservation::LIMITATION_LIMITS_NOT_ENFORCED);
  }
  // Either is enough to end all of a Task: the group, or init, whose end takes its namespace along.
  if (!groups.fences() && !probed.isolation.namespaces) {
    probed.limitations.push_back(NodeObservation::LIMITATION_UNFENCED);
  }
  // Root gives each Job a uid of its own, which alone keeps Tasks apart.
  if (!root && !probed.isolation.namespaces) {
    probed.limitations.push_back(NodeObservation::LIMITATION_UNISOLATED);
  }
  return probed;
}

}  // namespace capstan::node_agent
