#include "libs/kube/exec/remote_command.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "gtest/gtest.h"
#include "libs/kube/client/server_error.h"
#include "libs/kube/exec/channel_frames.h"
#include "libs/kube/exec/port_forward.h"
#include "libs/kube/exec/port_forward_core.h"
#include "libs/kube/exec/run_in_pod.h"
#include "libs/kube/exec/testing/dialer_fixture.h"
#include "libs/kube/exec/testing/web_socket_test_server.h"
#include "libs/kube/transport/transport_error.h"
#include "libs/status/error.h"

namespace capstan::kube {
namespace {

using absl::StatusCode;

constexpr char kSuccess[] = "\3{\"metadata\":{},\"status\":\"Success\"}";

std::string Exit(int code) {
  return absl::StrCat(
      "\3{\"metadata\":{},\"status\":\"Failure\",\"reason\":\"NonZeroExitCode\",\"details\":"
      "{\"causes\":[{\"reason\":\"ExitCode\",\"message\":\"",
      code, "\"}]}}");
}

class RecordingCommand final : public RemoteCommandHandler, public PortForwardHandler {
 public:
  std::function<void()> on_started;
  std::function<bool(absl::string_view)> on_output;
  std::function<void()> on_room;

  void OnStarted() override {
    if (on_started) on_started();
  }
  bool OnOutput(OutputStream stream, absl::string_view bytes) override {
    {
      absl::MutexLock lock(&mutex_);
      EXPECT_FALSE(end_.has_value());
      EXPECT_FALSE(bytes.empty());
      taken_ += bytes.size();
      if (taken_ < kKept) {
        absl::StrAppend(&output_, stream == OutputStream::kStdout ? "o:" : "e:", bytes, ";");
      }
    }
    return !on_output || on_output(bytes);
  }
  void OnStdinRoom() override {
    if (on_room) on_room();
  }
  void OnEnd(absl::StatusOr<ExitStatus> end) override {
    absl::MutexLock lock(&mutex_);
    EXPECT_FALSE(end_.has_value());
    end_ = std::move(end);
  }

  bool OnBytes(absl::string_view bytes) override { return OnOutput(OutputStream::kStdout, bytes); }
  void OnRoom() override { OnStdinRoom(); }
  void OnEnd(absl::Status end) override {
    OnEnd(end.ok() ? absl::StatusOr<ExitStatus>(ExitStatus()) : end);
  }

  absl::StatusOr<ExitStatus> AwaitEnd() {
    absl::MutexLock lock(&mutex_);
    const auto ended = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return end_.has_value(); };
    EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&ended), absl::Seconds(60)));
    return end_.has_value() ? *end_ : absl::UnknownError("no end");
  }
  void AwaitBytes(size_t count) {
    absl::MutexLock lock(&mutex_);
    const auto come = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return taken_ >= count; };
    EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&come), absl::Seconds(60)));
  }
  std::string output() {
    absl::MutexLock lock(&mutex_);
    return output_;
  }
  size_t taken() {
    absl::MutexLock lock(&mutex_);
    return taken_;
  }

 private:
  static constexpr size_t kKept = 10000;

  absl::Mutex mutex_;
  std::string output_ ABSL_GUARDED_BY(mutex_);
  size_t taken_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::optional<absl::StatusOr<ExitStatus>> end_ ABSL_GUARDED_BY(mutex_);
};

class RemoteCommandTest : public WebSocketDialerTest {
 protected:
  std::unique_ptr<RemoteCommand> Exec(RecordingCommand* handler, bool with_stdin = false) {
    RemoteCommandOptions options;
    options.command = {"cat"};
    options.take_stdin = with_stdin;
    return ExecInPod(dialer(), "default", "web-0", options, handler);
  }
};

TEST_F(RemoteCommandTest, AsksForWhatItIsTold) {
  std::string seen;
  Serve([&](ServedWebSocket* served) {
    absl::StrAppend(&seen, served->target(), "\n");
    served->Accept(kChannelsV5);
    served->Send(kSuccess);
    (void)served->Receive();
  });
  RemoteCommandOptions options;
  options.container = "main";
  options.command = {"sh", "-c", "echo a&b", ""};
  options.take_stdin = true;
  RecordingCommand exec;
  const auto first = ExecInPod(dialer(), "a", "b/c", options, &exec);
  EXPECT_EQ(exec.AwaitEnd()->code, 0);
  options.command = {};
  options.tty = true;
  RecordingCommand attach;
  const auto second = AttachToPod(dialer(), "a", "web", options, &attach);
  EXPECT_EQ(attach.AwaitEnd()->code, 0);
  EXPECT_EQ(seen,
            "/api/v1/namespaces/a/pods/b%2fc/exec?container=main&command=sh&command=-c&"
            "command=echo%20a%26b&command=&stdin=true&stdout=true&stderr=true&tty=false\n"
            "/api/v1/namespaces/a/pods/web/attach?container=main&stdin=true&stdout=true&"
            "stderr=false&tty=true\n");
}

TEST_F(RemoteCommandTest, TellsOutputInItsOrderAndTheExitCode) {
  Serve([](ServedWebSocket* served) {
    served->Accept(kChannelsV5);
    for (const char* message : {"\1", "\1one", "\2two", "\1three", "\2four"}) {
      served->Send(message);
    }
    served->Send(Exit(137));
    (void)served->Receive();
  });
  RecordingCommand handler;
  const auto command = Exec(&handler);
  EXPECT_EQ(handler.AwaitEnd()->code, 137);
  EXPECT_EQ(handler.output(), "o:one;e:two;o:three;e:four;");
  EXPECT_EQ(command->CloseStdin().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(command->WriteStdin("x"), 0u);
}

TEST_F(RemoteCommandTest, TellsWhatWentWrong) {
  Serve([](ServedWebSocket* served) {
    const std::string pod = served->target().substr(26, 1);
    if (pod == "r") {
      return served->Refuse(403, R"({"kind":"Status","status":"Failure","reason":"Forbidden"})");
    }
    served->Accept(pod == "p" ? "v1.channel.k8s.io" : kChannelsV5);
    if (pod == "f") {
      served->Send("\3{\"status\":\"Failure\",\"reason\":\"InternalError\",\"code\":500}");
    }
    if (pod == "c") served->Close(1011, "restarting");
    if (pod == "n") served->Close(1000, "");
    if (pod == "b") served->Break();
    if (pod == "f" || pod == "p") (void)served->Receive();
  });
  const auto end_of = [&](const char* pod) {
    RecordingCommand handler;
    RemoteCommandOptions options;
    options.command = {"true"};
    const auto command = ExecInPod(dialer(), "x", pod, options, &handler);
    return handler.AwaitEnd().status();
  };
  EXPECT_EQ(end_of("r").code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(status::Reason(end_of("p")), kServerFailed);
  EXPECT_EQ(status::Reason(end_of("f")), kServerFailed);
  EXPECT_EQ(status::Reason(end_of("c")), kBroken);
  EXPECT_EQ(status::Reason(end_of("n")), kBroken);
  EXPECT_EQ(status::Reason(end_of("b")), kBroken);
}

// A server of v5 that sends stdin back until that is closed.
void Echo(ServedWebSocket* served) {
  served->Accept(kChannelsV5);
  while (auto message = served->Receive()) {
    if (*message == std::string("\xff\0", 2)) {
      served->Send(kSuccess);
      (void)served->Receive();
      return;
    }
    (*message)[0] = '\1';
    served->Send(*message);
  }
}

TEST_F(RemoteCommandTest, CarriesALotBothWays) {
  constexpr size_t kBytes = size_t{16} << 20;
  Serve(Echo);
  const std::string piece(100000, 'x');
  RecordingCommand handler;
  absl::Mutex mutex;
  std::unique_ptr<RemoteCommand> command;
  size_t written = 0;
  const auto write = [&] {
    absl::MutexLock lock(&mutex);
    for (;;) {
      const absl::string_view next =
          absl::string_view(piece).substr(0, std::min(piece.size(), kBytes - written));
      if (next.empty()) break;
      const size_t taken = command->WriteStdin(next);
      written += taken;
      // What waits here, and in the kernel.
      EXPECT_LE(written - handler.taken(), size_t{16} << 20);
      if (taken < next.size()) return;
    }
    EXPECT_EQ(command->CloseStdin(), absl::OkStatus());
  };
  handler.on_room = write;
  handler.on_started = write;
  {
    absl::MutexLock lock(&mutex);
    command = Exec(&handler, /*with_stdin=*/true);
  }
  EXPECT_EQ(handler.AwaitEnd()->code, 0);
  EXPECT_EQ(handler.taken(), kBytes);
  absl::MutexLock lock(&mutex);
  EXPECT_EQ(command->WriteStdin("late"), 0u);
}

TEST_F(RemoteCommandTest, HoldsAServerUpWhoseOutputIsNotTaken) {
  constexpr size_t kMessages = 1024;
  std::atomic<size_t> sent = 0;
  Serve([&](ServedWebSocket* served) {
    served->Accept(kChannelsV5);
    const std::string message = "\1" + std::string(32767, 'x');
    while (sent < kMessages && served->Send(message)) ++sent;
    served->Send(kSuccess);
    (void)served->Receive();
  });
  RecordingCommand handler;
  std::atomic<bool> wanted = false;
  handler.on_output = [&](absl::string_view) { return wanted.load(); };
  const auto command = Exec(&handler);
  handler.AwaitBytes(1);
  absl::Notification().WaitForNotificationWithTimeout(absl::Milliseconds(300));
  EXPECT_EQ(handler.taken(), 32767u);
  EXPECT_LT(sent, kMessages / 2);
  wanted = true;
  command->Resume();
  EXPECT_EQ(handler.AwaitEnd()->code, 0);
  EXPECT_EQ(handler.taken(), kMessages * 32767);
}

TEST_F(RemoteCommandTest, SendsTheTerminalsSize) {
  Serve([](ServedWebSocket* served) {
    served->Accept(kChannelsV4);
    served->Send("\1" + served->Receive().value_or("none").substr(1));
    served->Send(kSuccess);
    (void)served->Receive();
  });
  RecordingCommand handler;
  const auto command = Exec(&handler, /*with_stdin=*/true);
  command->Resize({120, 40});
  EXPECT_EQ(handler.AwaitEnd()->code, 0);
  EXPECT_EQ(handler.output(), R"(o:{"Width":120,"Height":40};)");
}

TEST_F(RemoteCommandTest, CannotCloseStdinOfAnOldServer) {
  Serve([](ServedWebSocket* served) {
    served->Accept(kChannelsV4);
    (void)served->Receive();
  });
  RecordingCommand handler;
  const auto command = Exec(&handler, /*with_stdin=*/true);
  if (command->CloseStdin().ok()) {
    EXPECT_EQ(status::Reason(handler.AwaitEnd().status()), kUnsupported);
  }
  RunOptions options;
  options.command = {"cat"};
  options.input = "bytes";
  EXPECT_EQ(status::Reason(RunInPod(dialer(), "x", "y", options).status()), kUnsupported);
}

TEST_F(RemoteCommandTest, HangsUpWhenItIsDestroyed) {
  absl::Notification over;
  Serve([&](ServedWebSocket* served) {
    served->Accept(kChannelsV5);
    served->Send("\1hello");
    while (served->Receive().has_value()) {
    }
    over.Notify();
  });
  RecordingCommand handler;
  auto command = Exec(&handler, /*with_stdin=*/true);
  handler.AwaitBytes(5);
  command.reset();
  over.WaitForNotification();
}

TEST_F(RemoteCommandTest, MayBeDestroyedInItsHandler) {
  Serve([](ServedWebSocket* served) {
    served->Accept(kChannelsV5);
    while (served->Send("\1hello")) {
    }
  });
  RecordingCommand handler;
  absl::Mutex mutex;
  std::unique_ptr<RemoteCommand> command;
  absl::Notification destroyed;
  handler.on_output = [&](absl::string_view) {
    absl::MutexLock lock(&mutex);
    command.reset();
    destroyed.Notify();
    return true;
  };
  {
    absl::MutexLock lock(&mutex);
    command = Exec(&handler);
  }
  destroyed.WaitForNotification();
  dialer_ = nullptr;
  EXPECT_EQ(handler.output(), "o:hello;");
}

TEST_F(RemoteCommandTest, RunsToTheEnd) {
  Serve([](ServedWebSocket* served) {
    served->Accept(kChannelsV5);
    served->Send("\2warning");
    while (const auto message = served->Receive()) {
      if ((*message)[0] == '\xff') served->Send(Exit(3));
      if ((*message)[0] == '\0') served->Send("\1" + message->substr(1));
    }
  });
  RunOptions options;
  options.command = {"cat"};
  options.input = std::string(1 << 20, 'x');
  const absl::StatusOr<RunResult> result = RunInPod(dialer(), "default", "web", options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->exit_code, 3);
  EXPECT_TRUE(result->output == options.input);
  EXPECT_EQ(result->errors, "warning");
  options.max_output_bytes = 1000;
  EXPECT_EQ(status::Reason(RunInPod(dialer(), "default", "web", options).status()),
            kOutputTooLarge);
  options.input = "";
  options.max_output_bytes = 7;
  options.timeout = absl::Milliseconds(300);
  EXPECT_EQ(status::Reason(RunInPod(dialer(), "default", "web", options).status()), kTimedOut);
}

TEST_F(RemoteCommandTest, ForwardsAPort) {
  Serve([](ServedWebSocket* served) {
    EXPECT_EQ(served->target(), "/api/v1/namespaces/default/pods/web/portforward?ports=80");
    EXPECT_EQ(served->Header("Sec-WebSocket-Protocol"), kChannelsV4);
    served->Accept(kChannelsV4);
    served->Send({"\0\x50\0", 3});
    served->Send({"\1\x50\0", 3});
    const std::string first = served->Receive().value_or("");
    served->Send(first);
    if (first.substr(1) == "refuse") served->Send("\1connection refused");
    served->Close(1000, "");
  });
  const auto forward = [&](absl::string_view bytes, RecordingCommand* handler) {
    const auto connection = ForwardPort(dialer(), "default", "web", 80, {}, handler);
    EXPECT_EQ(connection->Write(bytes), bytes.size());
    return handler->AwaitEnd().status();
  };
  RecordingCommand served;
  EXPECT_EQ(forward("hello", &served), absl::OkStatus());
  EXPECT_EQ(served.output(), "o:hello;");
  RecordingCommand refused;
  EXPECT_EQ(status::Reason(forward("refuse", &refused)), kForwardFailed);
}

}  // namespace
}  // namespace capstan::kube
