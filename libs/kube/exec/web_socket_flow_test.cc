// What goes through a WebSocket, how fast, and how it ends.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/kube/exec/testing/dialer_fixture.h"
#include "libs/kube/exec/testing/recording_web_socket.h"
#include "libs/kube/exec/testing/web_socket_test_server.h"
#include "libs/kube/exec/web_socket.h"
#include "libs/kube/transport/transport_error.h"
#include "libs/status/error.h"

namespace capstan::kube {
namespace {

TEST_F(WebSocketDialerTest, SaysHowItEnded) {
  Serve([](ServedWebSocket* served) {
    served->Accept("");
    served->Send("last");
    if (served->target() == "/close") served->Close(1011, "kubelet restarts");
    if (served->target() == "/break") served->Break();
  });
  for (const char* target : {"/close", "/break", "/eof"}) {
    RecordingWebSocket handler;
    WebSocketRequest request;
    request.target = target;
    const auto socket = Dial(&handler, request);
    const WebSocketEnd end = handler.AwaitEnd();
    if (std::string(target) == "/close") {
      EXPECT_EQ(end.status, absl::OkStatus());
      EXPECT_EQ(end.code, 1011);
      EXPECT_EQ(end.reason, "kubelet restarts");
    } else {
      EXPECT_EQ(status::Reason(end.status), kBroken) << target;
    }
    // After a reset what had come may be lost.
    if (std::string(target) != "/break") {
      EXPECT_EQ(handler.messages(), std::vector<std::string>{"last"});
    }
  }
}

TEST_F(WebSocketDialerTest, TakesNoGiantMessages) {
  options_.max_message_bytes = 1000;
  Serve([](ServedWebSocket* served) {
    served->Accept("");
    served->Send(std::string(1000, 'a'));
    // The head alone of a frame of 2^40 bytes.
    if (served->target() == "/head") served->SendRaw({"\x82\x7f\0\0\1\0\0\0\0\0", 10});
    served->Send(std::string(1001, 'a'));
    (void)served->Receive();
  });
  for (const char* target : {"/whole", "/head"}) {
    RecordingWebSocket handler;
    WebSocketRequest request;
    request.target = target;
    const auto socket = Dial(&handler, request);
    EXPECT_EQ(status::Reason(handler.AwaitEnd().status), kMessageTooLarge);
    EXPECT_EQ(handler.messages().size(), 1u);
  }
}

TEST_F(WebSocketDialerTest, ReadsNothingThatIsNotWanted) {
  constexpr size_t kMessage = size_t{32} << 10;
  constexpr size_t kMessages = 1024;
  std::atomic<size_t> served_messages = 0;
  Serve([&](ServedWebSocket* served) {
    served->Accept("");
    while (served_messages < kMessages && served->Send(std::string(kMessage, 'x'))) {
      ++served_messages;
    }
    served->Close(1000, "");
  });
  RecordingWebSocket handler;
  handler.keep = false;
  std::atomic<size_t> taken = 0;
  handler.on_message = [&](absl::string_view) { return ++taken != 2 && taken < 100; };
  const auto socket = Dial(&handler);
  handler.AwaitCount(2);
  absl::Notification().WaitForNotificationWithTimeout(absl::Milliseconds(300));
  // The kernel holds some megabytes, of 32.
  EXPECT_EQ(handler.count(), 2u);
  EXPECT_LT(served_messages, kMessages / 2);
  socket->Resume();
  // Once for all that come too early; then for each.
  for (size_t i = 100; i <= kMessages; ++i) {
    handler.AwaitCount(i);
    ASSERT_EQ(handler.count(), i);
    socket->Resume();
  }
  EXPECT_EQ(handler.AwaitEnd().status, absl::OkStatus());
  EXPECT_EQ(served_messages, kMessages);
}

TEST_F(WebSocketDialerTest, SendsNoFasterThanTheServerTakes) {
  constexpr size_t kMessage = size_t{32} << 10;
  constexpr size_t kMessages = 1024;
  const auto gate = MakeGate();
  std::atomic<size_t> received = 0;
  Serve([gate, &received](ServedWebSocket* served) {
    served->Accept("");
    gate->WaitForNotification();
    while (received < kMessages && served->Receive().has_value()) ++received;
    served->Close(1000, "");
  });
  RecordingWebSocket handler;
  std::unique_ptr<WebSocket> socket;
  std::atomic<size_t> sent = 0;
  std::atomic<size_t> lead = 0;
  const auto send = [&] {
    lead = std::max<size_t>(lead, sent - received);
    if (sent == 32) gate->Notify();
    if (sent < kMessages) {
      ++sent;
      socket->Send(std::string(kMessage, 'x'));
    }
  };
  handler.on_sent = send;
  socket = Dial(&handler);
  (void)handler.AwaitOpen();
  send();
  EXPECT_EQ(handler.AwaitEnd().status, absl::OkStatus());
  EXPECT_EQ(received, kMessages);
  // What the kernel holds on both sides.
  EXPECT_LT(lead, kMessages / 2);
}

// The server has said all and hung up while we were sending to it, as when a command has ended
// that does not read its stdin.
TEST_F(WebSocketDialerTest, ReadsWhatWasSaidBeforeAFailedSend) {
  absl::Notification gone;
  Serve([&](ServedWebSocket* served) {
    served->Accept("");
    served->Send("first");
    served->Send("exit code");
    // With unread bytes, which makes a reset of it.
    served->WaitReadable();
    served->Break();
    gone.Notify();
  });
  RecordingWebSocket handler;
  handler.on_message = [](absl::string_view message) { return message != "first"; };
  const auto socket = Dial(&handler);
  (void)handler.AwaitMessages(1);
  socket->Send(std::string(100, 'x'));
  handler.AwaitSent(1);
  gone.WaitForNotification();
  socket->Send(std::string(size_t{1} << 20, 'x'));
  socket->Resume();
  EXPECT_EQ(status::Reason(handler.AwaitEnd().status), kBroken);
  EXPECT_EQ(handler.messages(), (std::vector<std::string>{"first", "exit code"}));
}

TEST_F(WebSocketDialerTest, ClosesInOrderWhenItIsDestroyed) {
  std::atomic<int> code = 0;
  absl::Notification over;
  Serve([&](ServedWebSocket* served) {
    served->Accept("");
    served->Send("hello");
    while (served->Receive().has_value()) {
    }
    code = served->close_code();
    over.Notify();
  });
  RecordingWebSocket handler;
  auto socket = Dial(&handler);
  (void)handler.AwaitMessages(1);
  socket.reset();
  over.WaitForNotification();
  EXPECT_EQ(code, 1000);
  EXPECT_FALSE(handler.ended());
}

TEST_F(WebSocketDialerTest, MayBeDestroyedInItsHandler) {
  Serve([&](ServedWebSocket* served) {
    served->Accept("");
    while (served->Send("more")) {
    }
  });
  // Nobody waits for a handler that destroys its own.
  std::vector<std::unique_ptr<RecordingWebSocket>> handlers;
  absl::Mutex mutex;
  for (const bool at_open : {true, false}) {
    handlers.push_back(std::make_unique<RecordingWebSocket>());
    RecordingWebSocket& handler = *handlers.back();
    std::unique_ptr<WebSocket> socket;
    absl::Notification destroyed;
    const auto destroy = [&] {
      absl::MutexLock lock(&mutex);
      socket.reset();
      destroyed.Notify();
      return true;
    };
    if (at_open) {
      handler.on_open = destroy;
    } else {
      handler.on_message = [&](absl::string_view) { return destroy(); };
    }
    {
      absl::MutexLock lock(&mutex);
      socket = Dial(&handler);
    }
    destroyed.WaitForNotification();
    absl::MutexLock lock(&mutex);
    EXPECT_LE(handler.messages().size(), 1u);
    EXPECT_FALSE(handler.ended());
  }
  dialer_ = nullptr;
}

TEST_F(WebSocketDialerTest, EndsWhatIsUnderWayWhenItIsDestroyed) {
  const auto gate = MakeGate();
  Serve([gate](ServedWebSocket* served) {
    if (served->target() == "/open") {
      served->Accept("");
      served->Send("hello");
    }
    gate->WaitForNotification();
  });
  RecordingWebSocket open;
  open.on_message = [](absl::string_view) { return false; };
  WebSocketRequest request;
  request.target = "/open";
  const auto first = Dial(&open, request);
  (void)open.AwaitMessages(1);
  RecordingWebSocket dialling;
  const auto second = Dial(&dialling);
  credentials_.BeSilent();
  RecordingWebSocket waiting;
  const auto third = Dial(&waiting);
  dialer_ = nullptr;
  for (RecordingWebSocket* handler : {&open, &dialling, &waiting}) {
    ASSERT_TRUE(handler->ended());
    EXPECT_EQ(status::Reason(handler->AwaitEnd().status), kStopped);
  }
  first->Resume();
  first->Send("late");
  credentials_.Answer();
}

TEST_F(WebSocketDialerTest, FindsADeadServerByPings) {
  options_.server.keepalive_idle = absl::Milliseconds(100);
  options_.server.keepalive_timeout = absl::Milliseconds(200);
  const auto gate = MakeGate();
  Serve([gate](ServedWebSocket* served) {
    served->Accept("");
    gate->WaitForNotification();
  });
  EXPECT_EQ(status::Reason(EndOfOne().status), kBroken);
}

TEST_F(WebSocketDialerTest, KeepsAServerThatAnswersPings) {
  options_.server.keepalive_idle = absl::Milliseconds(50);
  options_.server.keepalive_timeout = absl::Seconds(10);
  Serve([&](ServedWebSocket* served) {
    served->Accept("");
    // Answers the pings meanwhile.
    const auto message = served->Receive();
    served->Send(absl::StrCat(message.value_or("none"), served->pings() > 0 ? " pinged" : ""));
    served->Close(1000, "");
  });
  RecordingWebSocket handler;
  const auto socket = Dial(&handler);
  (void)handler.AwaitOpen();
  absl::Notification().WaitForNotificationWithTimeout(absl::Milliseconds(300));
  EXPECT_FALSE(handler.ended());
  socket->Send("alive");
  EXPECT_EQ(handler.AwaitMessages(1), std::vector<std::string>{"alive pinged"});
}

}  // namespace
}  // namespace capstan::kube
