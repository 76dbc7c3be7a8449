#include "services/node_agent/adapters/task_visit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/status/status_macros.h"
#include "services/node_agent/adapters/child_program.h"
#include "services/node_agent/shim/visit.h"

namespace capstan::node_agent {

using task_session::FdChannels;
using telemetry::v1::TaskCommand;
using telemetry::v1::TaskSessionFrame;

namespace {

constexpr int kSignalled = 128;

struct Ends {
  // The command's three streams.
  UniqueFd in;
  UniqueFd out;
  UniqueFd err;
  // The agent's, invalid where a terminal carries it.
  UniqueFd to_in;
  UniqueFd from_out;
  UniqueFd from_err;
  UniqueFd terminal;
};

absl::Status MakePipe(UniqueFd* read, UniqueFd* write) {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return ErrnoStatus(errno, "pipe", "");
  read->Reset(fds[0]);
  write->Reset(fds[1]);
  return absl::OkStatus();
}

UniqueFd Duplicate(const UniqueFd& fd) { return UniqueFd(fcntl(fd.get(), F_DUPFD_CLOEXEC, 3)); }

void SetSize(const UniqueFd& terminal, const telemetry::v1::TerminalSize& size) {
  winsize window = {};
  window.ws_col = static_cast<unsigned short>(std::clamp(size.columns(), 1, 10'000));
  window.ws_row = static_cast<unsigned short>(std::clamp(size.rows(), 1, 10'000));
  ioctl(terminal.get(), TIOCSWINSZ, &window);
}

absl::StatusOr<Ends> OpenTerminal(const telemetry::v1::TerminalSize& size) {
  Ends ends;
  ends.terminal = UniqueFd(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!ends.terminal.valid()) return ErrnoStatus(errno, "open a terminal", "");
  char name[128];
  if (grantpt(ends.terminal.get()) != 0 || unlockpt(ends.terminal.get()) != 0 ||
      ptsname_r(ends.terminal.get(), name, sizeof name) != 0) {
    return ErrnoStatus(errno, "unlock a terminal", "");
  }
  ends.in = UniqueFd(open(name, O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!ends.in.valid()) return ErrnoStatus(errno, "open", name);
  SetSize(ends.terminal, size);
  ends.out = Duplicate(ends.in);
  ends.err = Duplicate(ends.in);
  ends.to_in = Duplicate(ends.terminal);
  ends.from_out = Duplicate(ends.terminal);
  return ends;
}

absl::StatusOr<Ends> OpenPipes() {
  Ends ends;
  CAPSTAN_RETURN_IF_ERROR(MakePipe(&ends.in, &ends.to_in));
  CAPSTAN_RETURN_IF_ERROR(MakePipe(&ends.from_out, &ends.out));
  CAPSTAN_RETURN_IF_ERROR(MakePipe(&ends.from_err, &ends.err));
  return ends;
}

// In the forked child: see BecomeProgram. The descriptors are above kVisitFd.
[[noreturn]] void Become(char* const* argv, int in, int out, int err, int talk) {
  dup2(in, 0);
  dup2(out, 1);
  dup2(err, 2);
  BecomeProgram(argv, talk, kVisitFd);
}

absl::StatusOr<UniqueFd> Connect(int32_t port) {
  UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return ErrnoStatus(errno, "socket", "");
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return ErrnoStatus(errno, "connect", absl::StrCat("127.0.0.1:", port));
  }
  return socket;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TaskVisit>> TaskVisit::StartCommand(
    const std::vector<std::string>& shim_command, const std::string& folder,
    const TaskCommand& command, Callbacks callbacks) {
  auto visit = std::unique_ptr<TaskVisit>(new TaskVisit(std::move(callbacks)));
  CAPSTAN_RETURN_IF_ERROR(visit->Spawn(shim_command, folder, command));
  return visit;
}

std::unique_ptr<TaskVisit> TaskVisit::ServePorts(const telemetry::v1::TaskPorts& ports,
                                                 Callbacks callbacks) {
  auto visit = std::unique_ptr<TaskVisit>(new TaskVisit(std::move(callbacks)));
  FdChannels::Callbacks channels = visit->ChannelCallbacks();
  channels.connect = [ports](int32_t port) -> absl::StatusOr<UniqueFd> {
    if (std::find(ports.ports().begin(), ports.ports().end(), port) == ports.ports().end()) {
      return absl::PermissionDeniedError("not a port of the session");
    }
    return Connect(port);
  };
  visit->channels_ = std::make_unique<FdChannels>(std::move(channels));
  return visit;
}

FdChannels::Callbacks TaskVisit::ChannelCallbacks() {
  FdChannels::Callbacks callbacks;
  callbacks.send = callbacks_.send;
  callbacks.broken = callbacks_.over;
  return callbacks;
}

absl::Status TaskVisit::Spawn(const std::vector<std::string>& shim_command,
                              const std::string& folder, const TaskCommand& command) {
  CAPSTAN_ASSIGN_OR_RETURN(Ends ends,
                           command.has_terminal() ? OpenTerminal(command.terminal()) : OpenPipes());
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
    return ErrnoStatus(errno, "socketpair", "");
  }
  talk_ = UniqueFd(pair[0]);
  UniqueFd theirs(pair[1]);
  const std::string request = command.SerializeAsString();
  if (send(talk_.get(), request.data(), request.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(request.size())) {
    return ErrnoStatus(errno, "send", "the command");
  }
  std::vector<char*> argv;
  for (const std::string& word : shim_command) argv.push_back(const_cast<char*>(word.c_str()));
  const std::string flag = "--visit";
  argv.push_back(const_cast<char*>(flag.c_str()));
  argv.push_back(const_cast<char*>(folder.c_str()));
  argv.push_back(nullptr);
  pid_ = fork();
  if (pid_ < 0) return ErrnoStatus(errno, "fork", "");
  if (pid_ == 0) Become(argv.data(), ends.in.get(), ends.out.get(), ends.err.get(), theirs.get());
  terminal_ = std::move(ends.terminal);
  {
    absl::MutexLock lock(&mutex_);
    open_outputs_ = command.has_terminal() ? 1 : 2;
  }
  FdChannels::Callbacks callbacks = ChannelCallbacks();
  callbacks.eof = [this](int32_t channel) { OnEof(channel); };
  channels_ = std::make_unique<FdChannels>(std::move(callbacks));
  channels_->Add(0, UniqueFd(), std::move(ends.to_in));
  channels_->Add(1, std::move(ends.from_out), UniqueFd());
  if (!command.has_terminal()) channels_->Add(2, std::move(ends.from_err), UniqueFd());
  waiter_ = std::thread([this] { AwaitEnd(); });
  return absl::OkStatus();
}

TaskVisit::~TaskVisit() {
  // The visit ends the command when it sees this.
  if (talk_.valid()) shutdown(talk_.get(), SHUT_RDWR);
  if (waiter_.joinable()) waiter_.join();
  channels_.reset();
}

void TaskVisit::AwaitEnd() {
  // Until the visit lets go of it: it has said all it had to say.
  char text[1024];
  std::string failure;
  ssize_t got;
  while ((got = recv(talk_.get(), text, sizeof text, 0)) > 0 || (got < 0 && errno == EINTR)) {
    if (got > 0) failure.assign(text, static_cast<size_t>(got));
  }
  int wait_status = 0;
  while (waitpid(pid_, &wait_status, 0) < 0 && errno == EINTR) {
  }
  {
    absl::MutexLock lock(&mutex_);
    ended_ = true;
    end_.set_failure(failure);
    end_.set_exit_code(WIFSIGNALED(wait_status) ? kSignalled + WTERMSIG(wait_status)
                                                : WEXITSTATUS(wait_status));
  }
  MaybeFinish();
}

void TaskVisit::OnEof(int32_t) {
  {
    absl::MutexLock lock(&mutex_);
    --open_outputs_;
  }
  MaybeFinish();
}

// Once the command has ended and all that it wrote was sent.
void TaskVisit::MaybeFinish() {
  TaskSessionFrame frame;
  {
    absl::MutexLock lock(&mutex_);
    if (!ended_ || open_outputs_ > 0 || finished_) return;
    finished_ = true;
    *frame.mutable_command_end() = end_;
  }
  const absl::Status sent = callbacks_.send(std::move(frame));
  callbacks_.over(sent);
}

void TaskVisit::Receive(TaskSessionFrame frame) {
  if (frame.has_resize()) {
    if (terminal_.valid()) SetSize(terminal_, frame.resize());
    return;
  }
  channels_->Receive(std::move(frame));
}

}  // namespace capstan::node_agent
