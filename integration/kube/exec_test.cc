// Commands, logs and ports of Pods through a real API server, behind which a stand-in for a
// kubelet runs processes.
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "gtest/gtest.h"
#include "integration/kube/real_client.h"
#include "integration/kube/real_cluster.h"
#include "integration/kube/stand_in_kubelet.h"
#include "libs/kube/client/client.h"
#include "libs/kube/client/pod_calls.h"
#include "libs/kube/client/request.h"
#include "libs/kube/client/server_error.h"
#include "libs/kube/config/client_config.h"
#include "libs/kube/connection/connection.h"
#include "libs/kube/exec/channel_frames.h"
#include "libs/kube/exec/port_forward.h"
#include "libs/kube/exec/port_forward_core.h"
#include "libs/kube/exec/remote_command.h"
#include "libs/kube/exec/remote_command_core.h"
#include "libs/kube/exec/run_in_pod.h"
#include "libs/kube/exec/web_socket.h"
#include "libs/kube/exec/web_socket_dialer.h"
#include "libs/status/error.h"
#include "tools/testenv/kubernetes_cluster.h"

namespace capstan::kube::testing {
namespace {

using absl::StatusCode;

constexpr size_t kMany = size_t{64} << 20;
// What lies between two ends of a stream: here, in the kernel, in the API server and the kubelet.
constexpr size_t kUnderWay = size_t{24} << 20;
constexpr char kPod[] = "web";

// The byte at a place of a long row, which repeats after 2^32.
char ByteAt(size_t place) { return static_cast<char>((place * 2654435761u) >> 24); }

std::string BytesAt(size_t place, size_t count) {
  std::string bytes(count, '\0');
  for (size_t i = 0; i < count; ++i) bytes[i] = ByteAt(place + i);
  return bytes;
}

bool IsRow(absl::string_view bytes, size_t place) { return bytes == BytesAt(place, bytes.size()); }

// Of this process, at most so far.
size_t PeakMemory() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<size_t>(usage.ru_maxrss) << 10;
}

class Recorder final : public RemoteCommandHandler, public PortForwardHandler, public StreamReader {
 public:
  // Whether more is wanted. If set, output is counted and not kept.
  std::function<bool(absl::string_view bytes, size_t place)> on_output;
  std::function<void()> on_room;

  void OnStarted() override { OnStdinRoom(); }
  void OnStdinRoom() override {
    if (on_room) on_room();
  }
  bool OnOutput(OutputStream, absl::string_view bytes) override { return OnBytes(bytes); }
  bool OnBytes(absl::string_view bytes) override {
    size_t place = 0;
    {
      absl::MutexLock lock(&mutex_);
      place = taken_;
      taken_ += bytes.size();
      if (!on_output) absl::StrAppend(&output_, bytes);
    }
    return !on_output || on_output(bytes, place);
  }
  void OnRoom() override { OnStdinRoom(); }
  void OnEnd(absl::StatusOr<ExitStatus> end) override {
    absl::MutexLock lock(&mutex_);
    end_ = std::move(end);
  }
  void OnEnd(absl::Status end) override {
    OnEnd(end.ok() ? absl::StatusOr<ExitStatus>(ExitStatus()) : end);
  }

  absl::StatusOr<ExitStatus> AwaitEnd() {
    absl::MutexLock lock(&mutex_);
    const auto ended = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return end_.has_value(); };
    EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&ended), absl::Minutes(2)));
    return end_.has_value() ? *end_ : absl::UnknownError("no end");
  }
  void AwaitOutput(const std::string& part) {
    absl::MutexLock lock(&mutex_);
    const auto come = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return absl::StrContains(output_, part) || end_.has_value();
    };
    EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&come), absl::Minutes(1)));
    EXPECT_TRUE(absl::StrContains(output_, part)) << output_;
  }
  size_t taken() {
    absl::MutexLock lock(&mutex_);
    return taken_;
  }

 private:
  absl::Mutex mutex_;
  std::string output_ ABSL_GUARDED_BY(mutex_);
  size_t taken_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::optional<absl::StatusOr<ExitStatus>> end_ ABSL_GUARDED_BY(mutex_);
};

class ExecTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto kubelet =
        StandInKubelet::Start({{"main", "exec sleep infinity"},
                               {"printer", "seq 1 9000000 | head -c 67108864"},
                               {"reader", "while read line; do echo \"got $line\"; done"}});
    ASSERT_TRUE(kubelet.ok()) << kubelet.status();
    kubelet_ = kubelet->release();
    auto cluster = testenv::KubernetesCluster::Start({kubelet_->api_server_flags()});
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = cluster->release();
    RealClient client(AdminConfig(*cluster_).value());
    ASSERT_EQ(kubelet_->Register(&client), absl::OkStatus());
    ns_ = new std::string(cluster_->CreateNamespace().value());
    ASSERT_EQ(kubelet_->RunPod(&client, *ns_, kPod, {"main", "printer", "reader"}),
              absl::OkStatus());
  }
  static void TearDownTestSuite() {
    delete cluster_;
    delete kubelet_;
    delete ns_;
  }

  void SetUp() override {
    ASSERT_NE(ns_, nullptr);
    config_ = AdminConfig(*cluster_).value();
    Reconnect();
  }

  void Reconnect() {
    dialer_ = nullptr;
    client_ = std::make_unique<RealClient>(config_);
    WebSocketDialerOptions options;
    options.server = TransportOptionsOf(config_);
    dialer_ = MakeWebSocketDialer(options, client_->credentials()).value();
  }

  absl::StatusOr<RunResult> Run(const std::string& script, const std::string& input = "") {
    RunOptions options;
    options.container = "main";
    options.command = {"sh", "-c", script};
    options.input = input;
    return RunInPod(dialer_.get(), *ns_, kPod, options);
  }

  std::unique_ptr<RemoteCommand> Exec(const std::string& script, Recorder* recorder,
                                      bool tty = false) {
    RemoteCommandOptions options;
    options.container = "main";
    options.command = {"sh", "-c", script};
    options.take_stdin = true;
    options.tty = tty;
    return ExecInPod(dialer_.get(), *ns_, kPod, options, recorder);
  }

  static StandInKubelet* kubelet_;
  static testenv::KubernetesCluster* cluster_;
  static std::string* ns_;
  ClientConfig config_;
  std::unique_ptr<RealClient> client_;
  std::unique_ptr<WebSocketDialer> dialer_;
};

StandInKubelet* ExecTest::kubelet_ = nullptr;
testenv::KubernetesCluster* ExecTest::cluster_ = nullptr;
std::string* ExecTest::ns_ = nullptr;

TEST_F(ExecTest, TellsOutputErrorsAndExitCodes) {
  for (const auto& [script, code] :
       std::vector<std::pair<std::string, int>>{{"echo out; echo err >&2", 0},
                                                {"echo out; echo err >&2; exit 3", 3},
                                                {"echo out; echo err >&2; kill -KILL $$", 137}}) {
    const auto result = Run(script);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->exit_code, code);
    EXPECT_EQ(result->output, "out\n");
    EXPECT_EQ(result->errors, "err\n");
  }
  const auto counted = Run("wc -c", std::string(1000000, 'x'));
  ASSERT_TRUE(counted.ok()) << counted.status();
  EXPECT_EQ(counted->output, "1000000\n");
  // Does not read what it is given.
  const auto deaf = Run("exit 4", std::string(1000000, 'x'));
  ASSERT_TRUE(deaf.ok()) << deaf.status();
  EXPECT_EQ(deaf->exit_code, 4);
}

TEST_F(ExecTest, SaysWhyACommandCannotRun) {
  RunOptions options;
  options.container = "main";
  options.command = {"/no/such/program"};
  const absl::Status missing = RunInPod(dialer_.get(), *ns_, kPod, options).status();
  EXPECT_EQ(status::Reason(missing), kServerFailed) << missing;
  options.command = {"true"};
  EXPECT_EQ(status::Reason(RunInPod(dialer_.get(), *ns_, "gone", options).status()), kNotFound);
  options.container = "other";
  const absl::Status container = RunInPod(dialer_.get(), *ns_, kPod, options).status();
  EXPECT_EQ(container.code(), StatusCode::kInvalidArgument) << container;
  EXPECT_TRUE(absl::StrContains(container.message(), "container other is not valid"));
  config_.impersonation.user = "nobody";
  Reconnect();
  const absl::Status forbidden = Run("true").status();
  EXPECT_EQ(status::Reason(forbidden), kForbidden) << forbidden;
}

TEST_F(ExecTest, CarriesALotThroughACommand) {
  Recorder recorder;
  absl::Mutex mutex;
  std::unique_ptr<RemoteCommand> command;
  size_t written = 0;
  bool right = true;
  size_t lead = 0;
  recorder.on_room = [&] {
    absl::MutexLock lock(&mutex);
    while (written < kMany) {
      const std::string next = BytesAt(written, std::min(kMany - written, size_t{64} << 10));
      const size_t taken = command->WriteStdin(next);
      written += taken;
      lead = std::max(lead, written - recorder.taken());
      if (taken < next.size()) return;
    }
    EXPECT_EQ(command->CloseStdin(), absl::OkStatus());
  };
  recorder.on_output = [&](absl::string_view bytes, size_t place) {
    right = right && IsRow(bytes, place);
    return true;
  };
  const size_t before = PeakMemory();
  {
    absl::MutexLock lock(&mutex);
    command = Exec("cat", &recorder);
  }
  const auto end = recorder.AwaitEnd();
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_EQ(end->code, 0);
  EXPECT_EQ(recorder.taken(), kMany);
  EXPECT_TRUE(right);
  EXPECT_LT(lead, kUnderWay);
  EXPECT_LT(PeakMemory() - before, size_t{8} << 20);
}

TEST_F(ExecTest, HoldsACommandUpWhoseOutputIsNotTaken) {
  Recorder recorder;
  absl::Mutex mutex;
  bool wanted = false;
  recorder.on_output = [&](absl::string_view, size_t) {
    absl::MutexLock lock(&mutex);
    return wanted;
  };
  const std::string progress = absl::StrCat(::testing::TempDir(), "/progress");
  const auto command = Exec(
      absl::StrCat("head -c 67108864 /dev/zero; echo done >", progress, "; exit 6"), &recorder);
  absl::Notification().WaitForNotificationWithTimeout(absl::Seconds(2));
  const size_t first = recorder.taken();
  EXPECT_GT(first, 0u);
  EXPECT_LE(first, size_t{32} << 10);
  EXPECT_NE(::access(progress.c_str(), F_OK), 0);
  {
    absl::MutexLock lock(&mutex);
    wanted = true;
  }
  command->Resume();
  const auto end = recorder.AwaitEnd();
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_EQ(end->code, 6);
  EXPECT_EQ(recorder.taken(), kMany);
}

TEST_F(ExecTest, GivesATerminalItsSize) {
  Recorder recorder;
  const auto command = Exec(
      "while [ \"$(stty size)\" != '24 80' ]; do sleep 0.05; done; echo first; "
      "while [ \"$(stty size)\" != '50 132' ]; do sleep 0.05; done; test -t 1 && exit 7",
      &recorder, /*tty=*/true);
  command->Resize({80, 24});
  recorder.AwaitOutput("first");
  command->Resize({132, 50});
  const auto end = recorder.AwaitEnd();
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_EQ(end->code, 7);
}

TEST_F(ExecTest, AttachesToARunningProcess) {
  RemoteCommandOptions options;
  options.container = "reader";
  options.take_stdin = true;
  Recorder recorder;
  const auto command = AttachToPod(dialer_.get(), *ns_, kPod, options, &recorder);
  EXPECT_EQ(command->WriteStdin("hello\n"), 6u);
  recorder.AwaitOutput("got hello\n");
  EXPECT_EQ(command->CloseStdin(), absl::OkStatus());
  const auto end = recorder.AwaitEnd();
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_EQ(end->code, 0);
}

TEST_F(ExecTest, HangsUpWhenItIsDestroyed) {
  const std::string fifo = absl::StrCat(::testing::TempDir(), "/hung_up");
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  Recorder recorder;
  auto command = Exec(absl::StrCat("echo started; cat >/dev/null; echo ended >", fifo), &recorder);
  recorder.AwaitOutput("started");
  command.reset();
  // Waits until the command, whose stdin has ended, writes.
  std::ifstream file(fifo);
  std::string line;
  std::getline(file, line);
  EXPECT_EQ(line, "ended");
}

// The lines of `seq 1 …`, as their bytes come in pieces.
class Count {
 public:
  bool Continues(absl::string_view bytes) {
    for (const char c : bytes) {
      if (at_ == line_.size()) {
        line_ = absl::StrCat(++number_, "\n");
        at_ = 0;
      }
      if (c != line_[at_++]) return false;
    }
    return true;
  }

 private:
  uint64_t number_ = 0;
  std::string line_;
  size_t at_ = 0;
};

TEST_F(ExecTest, StreamsALongLogToASlowReader) {
  Recorder recorder;
  Count count;
  bool right = true;
  size_t pieces = 0;
  recorder.on_output = [&](absl::string_view bytes, size_t) {
    right = right && count.Continues(bytes);
    // Wants no more now and then.
    return ++pieces % 64 != 0;
  };
  const size_t before = PeakMemory();
  std::unique_ptr<PendingStream> stream;
  LogOptions options;
  options.container = "printer";
  options.follow = true;
  absl::Notification over;
  client_->strand()->Post(
      [&] { stream = StreamLog(client_->client(), *ns_, kPod, options, &recorder); });
  std::thread resumer([&] {
    while (!over.WaitForNotificationWithTimeout(absl::Milliseconds(5))) {
      client_->strand()->Post([&] {
        if (stream != nullptr) stream->Resume();
      });
    }
  });
  const auto end = recorder.AwaitEnd();
  over.Notify();
  resumer.join();
  absl::Notification destroyed;
  client_->strand()->Post([&] {
    stream.reset();
    destroyed.Notify();
  });
  destroyed.WaitForNotification();
  EXPECT_EQ(end.status(), absl::OkStatus());
  EXPECT_EQ(recorder.taken(), kMany);
  EXPECT_TRUE(right);
  EXPECT_LT(PeakMemory() - before, size_t{32} << 20);
}

// Sends back what one connection brings.
class EchoServer {
 public:
  EchoServer() {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(listener_, any, size), 0);
    EXPECT_EQ(::listen(listener_, 1), 0);
    EXPECT_EQ(::getsockname(listener_, any, &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Serve(); });
  }
  ~EchoServer() {
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
  }
  EchoServer(const EchoServer&) = delete;
  EchoServer& operator=(const EchoServer&) = delete;
  uint16_t port() const { return port_; }

 private:
  void Serve() {
    const int fd = ::accept(listener_, nullptr, nullptr);
    char bytes[65536];
    for (ssize_t come = 0; fd >= 0 && (come = ::read(fd, bytes, sizeof(bytes))) > 0;) {
      for (ssize_t sent = 0; sent < come;) {
        const ssize_t part =
            ::send(fd, bytes + sent, static_cast<size_t>(come - sent), MSG_NOSIGNAL);
        if (part <= 0) break;
        sent += part;
      }
    }
    if (fd >= 0) ::close(fd);
  }

  int listener_ = -1;
  uint16_t port_ = 0;
  std::thread thread_;
};

TEST_F(ExecTest, ForwardsAPort) {
  EchoServer echo;
  Recorder recorder;
  absl::Mutex mutex;
  std::unique_ptr<ForwardedConnection> connection;
  constexpr size_t kBytes = size_t{16} << 20;
  size_t written = 0;
  absl::Notification whole;
  recorder.on_room = [&] {
    absl::MutexLock lock(&mutex);
    while (written < kBytes) {
      const std::string next = BytesAt(written, std::min(kBytes - written, size_t{64} << 10));
      const size_t taken = connection->Write(next);
      written += taken;
      if (taken < next.size()) return;
    }
  };
  recorder.on_output = [&](absl::string_view bytes, size_t place) {
    EXPECT_TRUE(IsRow(bytes, place));
    if (place + bytes.size() == kBytes) whole.Notify();
    return true;
  };
  {
    absl::MutexLock lock(&mutex);
    connection = ForwardPort(dialer_.get(), *ns_, kPod, echo.port(), {}, &recorder);
  }
  recorder.on_room();
  EXPECT_TRUE(whole.WaitForNotificationWithTimeout(absl::Minutes(2)));
  absl::MutexLock lock(&mutex);
  // The server sees its end, and ends.
  connection.reset();
}

TEST_F(ExecTest, SaysThatNobodyListensAtAPort) {
  uint16_t port = 0;
  {
    port = EchoServer().port();
  }
  Recorder recorder;
  const auto connection = ForwardPort(dialer_.get(), *ns_, kPod, port, {}, &recorder);
  const absl::Status end = recorder.AwaitEnd().status();
  EXPECT_EQ(status::Reason(end), kForwardFailed) << end;
  Recorder missing;
  const auto gone = ForwardPort(dialer_.get(), *ns_, "gone", port, {}, &missing);
  EXPECT_EQ(status::Reason(missing.AwaitEnd().status()), kNotFound);
}

}  // namespace
}  // namespace capstan::kube::testing
