#include "tools/capstan/cli/job_attach.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "libs/lifecycle/signal_thread.h"
#include "libs/rpc/session_client.h"
#include "libs/safe_path/safe_path.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "libs/task_session/fd_channels.h"
#include "proto/capstan/scheduler/v1/job_service.grpc.pb.h"
#include "proto/capstan/telemetry/v1/task_session.grpc.pb.h"
#include "tools/capstan/cli/call.h"
#include "tools/capstan/cli/command_exit.h"
#include "tools/capstan/cli/command_loop.h"
#include "tools/capstan/cli/human_format.h"
#include "tools/capstan/cli/names.h"
#include "tools/capstan/cli/platform.h"
#include "tools/capstan/cli/raw_terminal.h"
#include "tools/capstan/cli/terminal.h"
#include "tools/capstan/cli/terminal_size.h"
#include "tools/capstan/cli/whole_number.h"

namespace capstan::cli {
namespace {

using scheduler::v1::GetJobRequest;
using scheduler::v1::Job;
using scheduler::v1::JobService;
using task_session::FdChannels;
using telemetry::v1::OpenTaskSessionRequest;
using telemetry::v1::TaskSession;
using telemetry::v1::TaskSessionFrame;
using telemetry::v1::TaskSessionService;
using type::v1::TaskObservation;

// For the server to hear that we leave.
constexpr absl::Duration kLeaveBound = absl::Seconds(3);
// A window that is being drawn larger changes its size many times.
constexpr absl::Duration kSizeEvery = absl::Milliseconds(250);
constexpr int kBacklog = 128;
constexpr int kSignalled = 128;

// Which Task is meant: FAILED_PRECONDITION, with what to do, if it does not run.
absl::StatusOr<TaskSession> FindTask(Platform& platform, const std::string& name, int rank,
                                     const Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto channel, platform.Channel("scheduler"));
  const auto stub = JobService::NewStub(channel);
  GetJobRequest request;
  request.set_name(InProject(invocation.project, "jobs", name));
  CAPSTAN_ASSIGN_OR_RETURN(const Job job,
                           Call(stub.get(), &JobService::Stub::GetJob, request, Terms(invocation)));
  const std::string id = LastSegment(job.name());
  for (const auto& task : job.tasks()) {
    if (task.rank() != rank) continue;
    if (task.state() != TaskObservation::STATE_RUNNING) break;
    TaskSession session;
    session.set_job(job.name());
    session.mutable_task()->set_job_uid(job.uid());
    session.mutable_task()->set_generation(job.generation());
    session.mutable_task()->set_group(task.group());
    session.mutable_task()->set_index(task.index());
    session.set_rank(rank);
    session.set_node(task.node());
    return session;
  }
  return status::Error(absl::StatusCode::kFailedPrecondition, "TASK_NOT_RUNNING",
                       absl::StrCat("rank ", rank, " of ", id, " does not run: the Job is ",
                                    ShortEnum(Job::State_Name(job.state()), "STATE_"), ", with ",
                                    job.tasks_size(), " Tasks; see `capstan job get ", id, "`"));
}

// Signals as events of the loop. Made before any thread.
class Interrupts {
 public:
  Interrupts() {
    auto thread = lifecycle::SignalThread::Create({SIGINT, SIGTERM, SIGHUP},
                                                  [this](int signal) { OnSignal(signal); });
    if (thread.ok()) thread_ = *std::move(thread);
  }

  // `act` is run on the loop's strand from now on, until Forget; before and after, a signal ends
  // the process.
  void Tell(CommandLoop* loop, std::function<void(int)> act) {
    absl::MutexLock lock(&mutex_);
    loop_ = loop;
    act_ = std::move(act);
  }
  void Forget() {
    absl::MutexLock lock(&mutex_);
    loop_ = nullptr;
  }

 private:
  void OnSignal(int signal) {
    absl::MutexLock lock(&mutex_);
    if (loop_ == nullptr) _exit(kSignalled + signal);
    loop_->strand()->Post([act = act_, signal] { act(signal); });
  }

  absl::Mutex mutex_;
  CommandLoop* loop_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::function<void(int)> act_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<lifecycle::SignalThread> thread_;
};

// Our end of a session, from its opening to its end. On the loop's strand but for the channels;
// what the strand has still to do keeps it.
class Attachment : public std::enable_shared_from_this<Attachment> {
 public:
  // `begin` adds the channels once the other end is there.
  Attachment(CommandLoop* loop, std::shared_ptr<TaskSessionService::Stub> stub,
             const TaskSession& session, std::function<void(Attachment&)> begin)
      : loop_(loop), stub_(std::move(stub)), session_(session), begin_(std::move(begin)) {}

  void Start() {
    rpc::SessionCallbacks<TaskSessionFrame> callbacks;
    const auto self = shared_from_this();
    callbacks.on_message = [self](TaskSessionFrame frame) { self->OnFrame(std::move(frame)); };
    callbacks.on_closed = [self](const absl::Status& status) { self->OnClosed(status); };
    stream_ = rpc::OpenSession(
        stub_.get(), &TaskSessionService::StubInterface::async_interface::AttachTaskSession,
        loop_->strand(), std::move(callbacks));
    TaskSessionFrame attach;
    attach.set_attach(session_.id());
    Send(std::move(attach));
  }

  void Send(TaskSessionFrame frame) { stream_->Send(std::move(frame)).IgnoreError(); }

  // Ends the session, then the loop with `result`.
  void Leave(const absl::Status& result) {
    if (result_.has_value()) return;
    result_ = result;
    if (closed_) return loop_->Done(result);
    stream_->Finish(absl::OkStatus());
    loop_->strand()->RunAfter(kLeaveBound,
                              [self = shared_from_this()] { self->loop_->Done(*self->result_); });
  }

  FdChannels& channels() { return *channels_; }
  // Of a command that could not be run: why.
  const std::string& failure() const { return failure_; }

 private:
  void OnFrame(TaskSessionFrame frame) {
    if (loop_->done()) return;
    if (frame.has_attached()) {
      FdChannels::Callbacks callbacks;
      callbacks.send = [stream = stream_](TaskSessionFrame out) {
        return stream->Send(std::move(out));
      };
      callbacks.accepted = [this](UniqueFd connection, int32_t port) {
        channels_->OpenTo(std::move(connection), port);
      };
      callbacks.broken = [strand = loop_->strand(),
                          weak = weak_from_this()](const absl::Status& why) {
        strand->Post([weak, why] {
          if (const auto self = weak.lock()) self->Leave(why);
        });
      };
      channels_ = std::make_unique<FdChannels>(std::move(callbacks));
      return begin_(*this);
    }
    if (frame.has_command_end()) return OnEnd(frame.command_end());
    if (channels_ != nullptr) channels_->Receive(std::move(frame));
  }

  void OnEnd(const telemetry::v1::CommandEnd& end) {
    failure_ = end.failure();
    ended_ = true;
    const absl::Status result = CommandExit(end.exit_code());
    if (channels_ == nullptr) return Leave(result);
    // What it wrote is shown first.
    channels_->OnDrained([strand = loop_->strand(), weak = weak_from_this(), result] {
      strand->Post([weak, result] {
        if (const auto self = weak.lock()) self->Leave(result);
      });
    });
  }

  void OnClosed(const absl::Status& status) {
    closed_ = true;
    if (result_.has_value()) return loop_->Done(*result_);
    // What the command wrote is still being shown.
    if (ended_) return;
    loop_->Done(status.ok() ? absl::UnavailableError("the session has ended") : status);
  }

  CommandLoop* const loop_;
  const std::shared_ptr<TaskSessionService::Stub> stub_;
  const TaskSession session_;
  const std::function<void(Attachment&)> begin_;
  std::shared_ptr<rpc::Session<TaskSessionFrame, TaskSessionFrame>> stream_;
  absl::optional<absl::Status> result_;
  std::string failure_;
  // The command's end has come; the stream is over.
  bool ended_ = false;
  bool closed_ = false;
  // Last: its thread calls us.
  std::unique_ptr<FdChannels> channels_;
};

struct Opened {
  std::shared_ptr<TaskSessionService::Stub> stub;
  TaskSession session;
};

absl::StatusOr<Opened> OpenSession(Platform& platform, const TaskSession& wanted,
                                   const Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto channel, platform.Channel("telemetry"));
  Opened opened;
  opened.stub = TaskSessionService::NewStub(channel);
  OpenTaskSessionRequest request;
  *request.mutable_session() = wanted;
  CAPSTAN_ASSIGN_OR_RETURN(
      opened.session, Call(opened.stub.get(), &TaskSessionService::Stub::OpenTaskSession, request,
                           Terms(invocation)));
  return opened;
}

UniqueFd Duplicate(int fd) { return UniqueFd(fcntl(fd, F_DUPFD_CLOEXEC, 3)); }

void SetSize(const TerminalSize& size, telemetry::v1::TerminalSize* message) {
  message->set_columns(size.columns);
  message->set_rows(size.rows);
}

// Tells each change of the window's size.
void FollowSize(CommandLoop* loop, const std::shared_ptr<Attachment>& attachment,
                TerminalSize last) {
  if (loop->done()) return;
  const TerminalSize now = ReadTerminalSize(STDIN_FILENO);
  if (now.columns != last.columns || now.rows != last.rows) {
    TaskSessionFrame frame;
    SetSize(now, frame.mutable_resize());
    attachment->Send(std::move(frame));
  }
  loop->strand()->RunAfter(kSizeEvery,
                           [loop, attachment, now] { FollowSize(loop, attachment, now); });
}

absl::StatusOr<UniqueFd> ListenOn(uint16_t* port) {
  UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address = {};
  socklen_t size = sizeof address;
  address.sin_family = AF_INET;
  // Nobody else's machine is let in.
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(*port);
  if (bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
      listen(listener.get(), kBacklog) != 0 ||
      getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return ErrnoStatus(errno, "listen", absl::StrCat("127.0.0.1:", *port));
  }
  *port = ntohs(address.sin_port);
  return listener;
}

bool ParsePort(absl::string_view text, uint16_t* port) {
  const absl::optional<int64_t> number = ParseWholeNumber(text);
  if (!number.has_value() || *number < 1 || *number > 65535) return false;
  *port = static_cast<uint16_t>(*number);
  return true;
}

}  // namespace

absl::Status ExecInJob(const ExecOptions& options, Invocation& invocation) {
  Interrupts interrupts;
  if (options.terminal && isatty(STDIN_FILENO) != 1) {
    return status::Error(absl::StatusCode::kInvalidArgument, "NO_TERMINAL",
                         "standard input is not a terminal: leave -t out");
  }
  CAPSTAN_ASSIGN_OR_RETURN(const auto platform, Platform::Open(invocation));
  CAPSTAN_ASSIGN_OR_RETURN(TaskSession wanted,
                           FindTask(*platform, options.name, options.rank, invocation));
  wanted.mutable_command()->mutable_argv()->Assign(options.argv.begin(), options.argv.end());
  const TerminalSize size = ReadTerminalSize(STDIN_FILENO);
  if (options.terminal) SetSize(size, wanted.mutable_command()->mutable_terminal());
  CAPSTAN_ASSIGN_OR_RETURN(const Opened opened, OpenSession(*platform, wanted, invocation));

  CommandLoop loop(invocation.clock, invocation.random);
  absl::optional<RawTerminal> raw;
  const auto begin = [&](Attachment& session) {
    const bool reads = options.with_input || options.terminal;
    session.channels().Add(0, reads ? Duplicate(STDIN_FILENO) : UniqueFd(), UniqueFd(),
                           /*shared=*/true);
    session.channels().Add(1, UniqueFd(), Duplicate(STDOUT_FILENO), /*shared=*/true);
    if (options.terminal) return FollowSize(&loop, session.shared_from_this(), size);
    session.channels().Add(2, UniqueFd(), Duplicate(STDERR_FILENO), /*shared=*/true);
  };
  const auto attachment = std::make_shared<Attachment>(&loop, opened.stub, opened.session, begin);
  if (options.terminal) {
    CAPSTAN_ASSIGN_OR_RETURN(RawTerminal entered, RawTerminal::Enter(STDIN_FILENO));
    raw.emplace(std::move(entered));
  }
  interrupts.Tell(
      &loop, [attachment](int signal) { attachment->Leave(CommandExit(kSignalled + signal)); });
  absl::Status result = loop.Run([&] { attachment->Start(); });
  interrupts.Forget();
  raw.reset();
  if (!attachment->failure().empty()) {
    *invocation.err << "error: the command could not be run: "
                    << WithoutControls(attachment->failure()) << "\n";
  }
  return result;
}

absl::StatusOr<PortPair> ParsePortPair(const std::string& text) {
  PortPair pair;
  const size_t colon = text.find(':');
  const absl::string_view all(text);
  const bool good = colon == std::string::npos
                        ? ParsePort(all, &pair.remote) && ParsePort(all, &pair.local)
                        : ParsePort(all.substr(colon + 1), &pair.remote) &&
                              (colon == 0 || ParsePort(all.substr(0, colon), &pair.local));
  if (good) return pair;
  return status::Error(absl::StatusCode::kInvalidArgument, "BAD_PORT",
                       absl::StrCat("found '", WithoutControls(text),
                                    "', expected LOCAL:REMOTE, REMOTE or :REMOTE, each from 1 to "
                                    "65535"));
}

absl::Status ForwardPorts(const ForwardOptions& options, Invocation& invocation) {
  Interrupts interrupts;
  std::vector<std::pair<PortPair, UniqueFd>> listeners;
  for (const std::string& text : options.ports) {
    CAPSTAN_ASSIGN_OR_RETURN(PortPair pair, ParsePortPair(text));
    CAPSTAN_ASSIGN_OR_RETURN(UniqueFd listener, ListenOn(&pair.local));
    listeners.emplace_back(pair, std::move(listener));
  }
  CAPSTAN_ASSIGN_OR_RETURN(const auto platform, Platform::Open(invocation));
  CAPSTAN_ASSIGN_OR_RETURN(TaskSession wanted,
                           FindTask(*platform, options.name, options.rank, invocation));
  for (const auto& [pair, listener] : listeners) wanted.mutable_ports()->add_ports(pair.remote);
  CAPSTAN_ASSIGN_OR_RETURN(const Opened opened, OpenSession(*platform, wanted, invocation));

  CommandLoop loop(invocation.clock, invocation.random);
  const auto begin = [&](Attachment& session) {
    for (auto& [pair, listener] : listeners) {
      *invocation.out << "127.0.0.1:" << pair.local << " -> rank " << options.rank << " port "
                      << pair.remote << std::endl;
      session.channels().Listen(std::move(listener), pair.remote);
    }
  };
  const auto attachment = std::make_shared<Attachment>(&loop, opened.stub, opened.session, begin);
  // Ctrl-C is how it ends.
  interrupts.Tell(&loop, [attachment](int) { attachment->Leave(absl::OkStatus()); });
  absl::Status result = loop.Run([&] { attachment->Start(); });
  interrupts.Forget();
  if (!attachment->failure().empty()) {
    return status::Error(absl::StatusCode::kAborted, "SESSION_ENDED",
                         WithoutControls(attachment->failure()));
  }
  return result;
}

}  // namespace capstan::cli
