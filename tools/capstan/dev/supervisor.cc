#include "tools/capstan/dev/supervisor.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/process/stop_signal.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "tools/capstan/cli/exit_code.h"
#include "tools/capstan/dev/data_folder.h"
#include "tools/capstan/dev/readiness.h"

namespace capstan::dev {
namespace {

// The descriptor under which a child has what it inherits.
constexpr int kInheritedFd = 3;
// How a part ends whose SVID is missing, expired or of another trust domain.
constexpr int kNeedsToken = static_cast<int>(cli::ExitCode::kNeedsIdentity);
constexpr absl::Duration kTokenRetry = absl::Seconds(1);
constexpr absl::Duration kProbePause = absl::Milliseconds(50);
constexpr absl::Duration kProbeTimeOut = absl::Milliseconds(200);
// Without the platform ever having been ready, a part that ended so often will not do better.
constexpr int kHopeless = 8;

bool HasIdentity(const std::string& data_dir, const PartSpec& part) {
  struct stat info = {};
  return stat(absl::StrCat(IdentityFolder(data_dir, part.name), "/svid.pem").c_str(), &info) == 0;
}

// The reading end of a pipe that holds the token and then ends.
absl::StatusOr<UniqueFd> TokenPipe(const std::string& token) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return ErrnoStatus(errno, "making a pipe for", "a join token");
  UniqueFd read_end(ends[0]);
  const UniqueFd write_end(ends[1]);
  // A token is far below a pipe's capacity, so that this does not block.
  CAPSTAN_RETURN_IF_ERROR(WriteAll(write_end.get(), token, "a pipe"));
  return read_end;
}

}  // namespace

Supervisor::Supervisor(SupervisorOptions options, cli::v1::Endpoints endpoints, const Clock* clock,
                       const log::Logger* log, std::function<void()> on_ready,
                       std::function<void(const std::string&)> on_phase)
    : options_(std::move(options)),
      endpoints_(std::move(endpoints)),
      clock_(clock),
      log_(log),
      on_ready_(std::move(on_ready)),
      on_phase_(std::move(on_phase)) {
  const BootTime now = clock_->Read().boot;
  for (const PartSpec& spec : options_.parts) {
    Part part;
    part.spec = spec;
    part.start_at = now;
    parts_.push_back(std::move(part));
  }
}

Supervisor::~Supervisor() = default;

Supervisor::Part* Supervisor::Find(absl::string_view name) {
  const auto found = std::find_if(parts_.begin(), parts_.end(),
                                  [name](const Part& part) { return name == part.spec.name; });
  return found == parts_.end() ? nullptr : &*found;
}

bool Supervisor::CanAskForTokens() const {
  return link_.has_value() && std::any_of(parts_.begin(), parts_.end(), [](const Part& part) {
           return part.spec.name == kCredentials && part.ready;
         });
}

absl::Status Supervisor::Run(int signal_fd) {
  while (true) {
    const absl::Status started = StartDue();
    if (!started.ok()) {
      StopAll(StopKind::kKeepTasks, signal_fd);
      return started;
    }
    ProbeReadiness();
    const absl::Duration timeout = TimeToNext();
    std::vector<pollfd> waiting = {{.fd = signal_fd, .events = POLLIN, .revents = 0}};
    if (link_.has_value()) waiting.push_back({.fd = link_->fd(), .events = POLLIN, .revents = 0});
    for (const Part& part : parts_) {
      if (part.child.has_value()) {
        waiting.push_back({.fd = part.child->pidfd(), .events = POLLIN, .revents = 0});
      }
    }
    const int ms = timeout == absl::InfiniteDuration()
                       ? -1
                       : static_cast<int>(absl::ToInt64Milliseconds(timeout)) + 1;
    poll(waiting.data(), waiting.size(), ms);
    ReadLink();
    ReapEnded();
    if (const absl::optional<StopKind> kind = ReadSignal(signal_fd)) {
      StopAll(*kind, signal_fd);
      return absl::OkStatus();
    }
  }
}

absl::Status Supervisor::StartDue() {
  const BootTime now = clock_->Read().boot;
  for (Part& part : parts_) {
    if (!part.start_at.has_value() || *part.start_at > now) continue;
    const bool is_credentials = part.spec.service == kCredentials;
    if (!is_credentials && !HasIdentity(options_.data_dir, part.spec)) part.needs_token = true;
    if (part.needs_token && part.token.empty()) {
      if (part.token_asked || !CanAskForTokens()) continue;
      part.token_asked = link_->AskForToken(part.spec.identity_path).ok();
      if (!part.token_asked) part.start_at = now + kTokenRetry;
      continue;
    }
    if (on_ready_ != nullptr && part.restarts.restarts() >= kHopeless) {
      return status::Error(
          absl::StatusCode::kFailedPrecondition, "PART_ENDS_AGAIN_AND_AGAIN",
          absl::StrCat(part.spec.name, " ends again and again; see ", LogFolder(options_.data_dir),
                       "/", part.spec.name, ".log and .out"),
          {{"part", part.spec.name}});
    }
    CAPSTAN_RETURN_IF_ERROR(StartPart(part));
  }
  return absl::OkStatus();
}

absl::Status Supervisor::StartPart(Part& part) {
  SpawnOptions spawn;
  const std::string& service = part.spec.service;
  if (options_.programs.empty()) {
    spawn.argv = {options_.program, "serve", service};
  } else {
    spawn.argv = {absl::StrCat(options_.programs, "/", service, "/", service, "_main")};
  }
  spawn.argv.push_back(
      absl::StrCat("--config=", PartConfigFile(options_.data_dir, part.spec.name)));
  spawn.environment = options_.environment;
  spawn.output_file = absl::StrCat(LogFolder(options_.data_dir), "/", part.spec.name, ".out");
  UniqueFd inherited;
  if (part.spec.name == kCredentials) {
    PrepareCredentials(&spawn, &inherited);
  } else if (!part.token.empty()) {
    CAPSTAN_ASSIGN_OR_RETURN(inherited, TokenPipe(part.token));
    spawn.argv.push_back(absl::StrCat("--join-token-fd=", kInheritedFd));
    part.token.clear();
    part.needs_token = false;
  }
  if (inherited.valid()) spawn.descriptors.emplace_back(inherited.get(), kInheritedFd);
  absl::StatusOr<Child> child = Child::Spawn(spawn);
  if (!child.ok()) return status::Annotate(child.status(), part.spec.name);
  part.child.emplace(*std::move(child));
  part.restarts.Started(clock_->Read().boot);
  part.start_at.reset();
  part.ready = false;
  log_->Info("part started", {{"part", part.spec.name}, {"pid", part.child->id().pid}});
  return WritePidFile(PidFile(options_.data_dir, part.spec.name), part.child->id());
}

void Supervisor::PrepareCredentials(SpawnOptions* spawn, UniqueFd* child_end) {
  absl::StatusOr<CredentialsLink> link = CredentialsLink::Create(child_end);
  if (!link.ok()) {
    log_->Error("no link to credentials", {{"error", link.status()}});
    return;
  }
  link_.emplace(*std::move(link));
  spawn->argv.push_back(absl::StrCat("--supervisor-fd=", kInheritedFd));
  for (Part& part : parts_) {
    part.token_asked = false;
    if (part.spec.service != kCredentials) {
      spawn->argv.push_back(absl::StrCat("--supervised-path=", part.spec.identity_path));
    }
  }
}

void Supervisor::ReapEnded() {
  const BootTime now = clock_->Read().boot;
  for (Part& part : parts_) {
    if (!part.child.has_value()) continue;
    const absl::optional<int> wait_status = part.child->TryReap();
    if (!wait_status.has_value()) continue;
    part.child.reset();
    part.ready = false;
    part.needs_token = WIFEXITED(*wait_status) && WEXITSTATUS(*wait_status) == kNeedsToken;
    part.start_at = part.restarts.Ended(now);
    if (part.spec.name == kCredentials) link_.reset();
    log_->Warning("part ended", {{"part", part.spec.name},
                                 {"how", DescribeWaitStatus(*wait_status)},
                                 {"again_in", *part.start_at - now}});
  }
}

void Supervisor::ReadLink() {
  while (link_.has_value()) {
    absl::StatusOr<absl::optional<CredentialsMessage>> message = link_->TryRead();
    if (!message.ok()) {
      if (message.status().code() == absl::StatusCode::kUnavailable) {
        link_.reset();
      } else {
        log_->Error("bad message from credentials", {{"error", message.status()}});
      }
      return;
    }
    if (!message->has_value()) return;
    HandleMessage(**message);
  }
}

void Supervisor::HandleMessage(const CredentialsMessage& message) {
  if (message.kind == CredentialsMessage::Kind::kReady) {
    Find(kCredentials)->ready = true;
    if (endpoints_.trust_domain() != message.trust_domain) {
      endpoints_.set_trust_domain(message.trust_domain);
      const absl::Status stored = StoreEndpoints(options_.data_dir, endpoints_);
      if (!stored.ok()) log_->Error("endpoints not stored", {{"error", stored}});
    }
    return;
  }
  for (Part& part : parts_) {
    if (message.path != part.spec.identity_path || !part.token_asked) continue;
    part.token_asked = false;
    if (message.kind == CredentialsMessage::Kind::kToken) {
      part.token = message.text;
    } else {
      log_->Error("no join token", {{"part", part.spec.name}, {"why", message.text}});
      part.start_at = clock_->Read().boot + kTokenRetry;
    }
    // Replicas have one path and a token each.
    return;
  }
}

// Readiness of credentials (the replica on the link) is what it says itself; of the others, what
// their endpoint says. Asked
// only until all have been ready once: afterwards `dev status` asks when somebody wants to know.
void Supervisor::ProbeReadiness() {
  if (on_ready_ == nullptr || clock_->Read().boot < next_probe_) return;
  bool all = true;
  for (Part& part : parts_) {
    if (!part.child.has_value()) {
      all = false;
    } else if (!part.ready && part.spec.name != kCredentials) {
      const std::string& address = endpoints_.parts().at(part.spec.name).metrics_address();
      part.ready = AskReadiness(address, kProbeTimeOut).readiness == Readiness::kReady;
    }
    all = all && part.ready;
  }
  next_probe_ = clock_->Read().boot + kProbePause;
  if (!all) return;
  log_->Info("platform ready");
  std::exchange(on_ready_, nullptr)();
}

absl::Duration Supervisor::TimeToNext() const {
  const BootTime now = clock_->Read().boot;
  BootTime next = on_ready_ != nullptr ? next_probe_ : BootTime::InfiniteFuture();
  for (const Part& part : parts_) {
    if (!part.start_at.has_value()) continue;
    const bool awaits_credentials =
        part.needs_token && part.token.empty() && (part.token_asked || !CanAskForTokens());
    // What credentials says wakes us, and no time.
    if (!awaits_credentials) next = std::min(next, *part.start_at);
  }
  if (next == BootTime::InfiniteFuture()) return absl::InfiniteDuration();
  return std::max(next - now, absl::ZeroDuration());
}

absl::optional<StopKind> Supervisor::ReadSignal(int signal_fd) {
  pollfd waiting = {.fd = signal_fd, .events = POLLIN, .revents = 0};
  char signal = 0;
  if (poll(&waiting, 1, 0) != 1 || read(signal_fd, &signal, 1) != 1) return absl::nullopt;
  return signal == kKeepTasksSignal ? StopKind::kKeepTasks : StopKind::kStopTasks;
}

void Supervisor::StopAll(StopKind kind, int signal_fd) {
  log_->Info("stopping", {{"keep_tasks", kind == StopKind::kKeepTasks}});
  StopPart(*Find("cluster_manager"), SIGTERM, options_.part_stop_bound, signal_fd);
  Part* const agent = Find(kNodeAgent);
  if (kind == StopKind::kStopTasks && agent != nullptr) {
    on_phase_("ending Tasks, with their grace (again: leave them running)");
    if (!StopPart(*agent, process::kStopTasksSignal, options_.task_stop_bound, signal_fd)) {
      on_phase_("leaving the Tasks that are left to their shims");
    }
  }
  on_phase_("stopping the parts");
  for (auto part = parts_.rbegin(); part != parts_.rend(); ++part) {
    StopPart(*part, SIGTERM, options_.part_stop_bound, signal_fd);
  }
  log_->Info("stopped");
}

bool Supervisor::StopPart(Part& part, int signal, absl::Duration bound, int signal_fd) {
  part.start_at.reset();
  if (part.child.has_value()) {
    SignalProcess(part.child->id(), signal);
    const BootTime deadline = clock_->Read().boot + bound;
    while (!part.child->TryReap().has_value()) {
      const absl::Duration left = deadline - clock_->Read().boot;
      if (left <= absl::ZeroDuration()) {
        log_->Warning("part killed", {{"part", part.spec.name}});
        SignalProcess(part.child->id(), SIGKILL);
        waitpid(part.child->id().pid, nullptr, 0);
        break;
      }
      pollfd waiting[] = {{.fd = part.child->pidfd(), .events = POLLIN, .revents = 0},
                          {.fd = signal_fd, .events = POLLIN, .revents = 0}};
      poll(waiting, 2, static_cast<int>(absl::ToInt64Milliseconds(left)) + 1);
      if (ReadSignal(signal_fd).has_value() && signal == process::kStopTasksSignal) {
        return false;
      }
    }
    part.child.reset();
  }
  unlink(PidFile(options_.data_dir, part.spec.name).c_str());
  return true;
}

}  // namespace capstan::dev
