// The helpers for calls and streams against a real server, without network.

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/auth/testing/fake_access.h"
#include "libs/rpc/call.h"
#include "libs/rpc/client_stream.h"
#include "libs/rpc/limits.h"
#include "libs/rpc/server.h"
#include "libs/rpc/session_client.h"
#include "libs/rpc/status_conversion.h"
#include "libs/rpc/testing/echo.grpc.pb.h"
#include "libs/rpc/testing/echo.pb.h"
#include "libs/rpc/testing/echo_server.h"
#include "libs/status/error.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/clock.h"
#include "libs/time/system_clock.h"

namespace capstan::rpc {
namespace {

using testing::EchoMessage;
using testing::EchoServer;
using testing::EchoService;
using Async = EchoService::StubInterface::async_interface;

constexpr absl::Duration kDeadline = absl::Seconds(30);

EchoMessage Message(const std::string& text, int64_t count = 0) {
  EchoMessage message;
  message.set_text(text);
  message.set_count(count);
  return message;
}

// Collects what a session is told.
struct Log {
  SessionCallbacks<EchoMessage> Callbacks() {
    SessionCallbacks<EchoMessage> callbacks;
    callbacks.on_message = [this](const EchoMessage& message) {
      absl::MutexLock lock(&mutex);
      messages.push_back(message);
    };
    callbacks.on_closed = [this](const absl::Status& why) {
      absl::MutexLock lock(&mutex);
      EXPECT_FALSE(closed);
      status = why;
      closed = true;
    };
    return callbacks;
  }
  absl::Status WaitClosed() {
    absl::MutexLock lock(&mutex);
    EXPECT_TRUE(mutex.AwaitWithTimeout(absl::Condition(&closed), kDeadline));
    return status;
  }
  void WaitMessages(size_t n) {
    absl::MutexLock lock(&mutex);
    const auto enough = [&] { return messages.size() >= n; };
    EXPECT_TRUE(mutex.AwaitWithTimeout(absl::Condition(&enough), kDeadline));
  }

  absl::Mutex mutex;
  std::vector<EchoMessage> messages;
  absl::Status status;
  bool closed = false;
};

class StreamTest : public ::testing::Test {
 protected:
  StreamTest() {
    ServerConfig config;
    config.services = {Registered<EchoService>(&echo_)};
    server_ = Server::Start(config).value();
    stub_ = EchoService::NewStub(server_->InProcessChannel());
  }
  ~StreamTest() override {
    client_.Stop();
    server_ = nullptr;
  }

  std::shared_ptr<BidiClientSession<EchoMessage, EchoMessage>> Chat(Log* log) {
    return OpenSession(stub_.get(), &Async::Chat, &client_, log->Callbacks());
  }
  auto Count(Log* log, EchoMessage request) {
    return OpenStream(stub_.get(), &Async::Count, std::move(request), &client_, log->Callbacks());
  }
  template <typename Condition>
  void Eventually(Condition condition) {
    const BootTime deadline = clock_.Read().boot + kDeadline;
    while (!condition()) {
      ASSERT_LT(clock_.Read().boot.ToNanoseconds(), deadline.ToNanoseconds());
      std::this_thread::yield();
    }
  }

  SystemClock clock_;
  auth::FakeAccess access_;
  ThreadStrand client_{"client", &clock_};
  ThreadStrand strand_{"server", &clock_};
  EchoServer echo_{&access_, &strand_};
  std::unique_ptr<Server> server_;
  std::unique_ptr<EchoService::Stub> stub_;
};

TEST_F(StreamTest, UnaryCallsAnswerOnTheStrand) {
  absl::Notification done;
  std::thread::id thread;
  client_.Post([&] { thread = std::this_thread::get_id(); });
  CallUnary(stub_.get(), &Async::Echo, Message("hello"), {}, &client_,
            [&](const absl::StatusOr<EchoMessage>& response) {
              EXPECT_EQ(response->text(), "hello");
              EXPECT_EQ(thread, std::this_thread::get_id());
              done.Notify();
            });
  EXPECT_TRUE(done.WaitForNotificationWithTimeout(kDeadline));
}

TEST_F(StreamTest, UnaryCallsEndAtTheirDeadlineAndWhenCancelled) {
  const auto release = std::make_shared<absl::Notification>();
  strand_.Post([release] { release->WaitForNotification(); });
  const auto call = [&](absl::Duration deadline, bool cancel) {
    absl::Notification done;
    absl::Status status;
    PendingCall pending = CallUnary(stub_.get(), &Async::Echo, Message("x"), {.deadline = deadline},
                                    &client_, [&](const absl::StatusOr<EchoMessage>& response) {
                                      status = response.status();
                                      done.Notify();
                                    });
    if (cancel) pending.Cancel();
    done.WaitForNotification();
    return status;
  };
  EXPECT_EQ(call(absl::Milliseconds(50), false).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(call(kDeadline, true).code(), absl::StatusCode::kCancelled);
  release->Notify();
}

TEST_F(StreamTest, AStoppedStrandAnswersUnavailable) {
  strand_.Stop();
  absl::Notification done;
  CallUnary(stub_.get(), &Async::Echo, Message("x"), {.deadline = kDeadline}, &client_,
            [&](const absl::StatusOr<EchoMessage>& response) {
              EXPECT_EQ(response.status().code(), absl::StatusCode::kUnavailable);
              done.Notify();
            });
  EXPECT_TRUE(done.WaitForNotificationWithTimeout(kDeadline));
  Log log;
  Chat(&log);
  EXPECT_EQ(log.WaitClosed().code(), absl::StatusCode::kUnavailable);
}

TEST_F(StreamTest, ServerStreamsArriveWholeAndInOrder) {
  Log log;
  Count(&log, Message("x", 1000));
  EXPECT_EQ(log.WaitClosed(), absl::OkStatus());
  ASSERT_EQ(log.messages.size(), 1000u);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(log.messages[i].count(), i);
}

TEST_F(StreamTest, ASlowReaderIsBounded) {
  // 64 MiB to a client that reads nothing: the writer is told long before.
  const auto release = std::make_shared<absl::Notification>();
  client_.Post([release] { release->WaitForNotification(); });
  Log log;
  Count(&log, Message(std::string(64 << 10, 'x'), 1024));
  Eventually([&] { return echo_.full() == 1; });
  release->Notify();
  EXPECT_EQ(log.WaitClosed().code(), absl::StatusCode::kAborted);
  EXPECT_LE(log.messages.size() * (64 << 10), 2 * kMaxQueuedBytes);
  EXPECT_GE(log.messages.size(), 1u);
}

TEST_F(StreamTest, ServerStreamsCanBeCancelled) {
  const auto release = std::make_shared<absl::Notification>();
  client_.Post([release] { release->WaitForNotification(); });
  Log log;
  const auto reader = Count(&log, Message(std::string(64 << 10, 'x'), 20));
  reader->Cancel();
  release->Notify();
  EXPECT_EQ(log.WaitClosed().code(), absl::StatusCode::kCancelled);
}

TEST_F(StreamTest, RefusedStreamsEndBeforeTheirHandler) {
  access_.Refuse(absl::PermissionDeniedError("no"));
  Log count;
  Count(&count, Message("x", 3));
  EXPECT_EQ(count.WaitClosed(), absl::PermissionDeniedError("no"));
  Log chat;
  const auto session = Chat(&chat);
  EXPECT_EQ(chat.WaitClosed(), absl::PermissionDeniedError("no"));
  EXPECT_EQ(session->Send(Message("x")).code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(echo_.handled(), 0);
}

TEST_F(StreamTest, SessionsEchoInOrder) {
  Log log;
  const auto session = Chat(&log);
  for (int i = 0; i < 500; ++i) ASSERT_EQ(session->Send(Message("x", i)), absl::OkStatus());
  log.WaitMessages(500);
  session->Finish(absl::OkStatus());
  EXPECT_EQ(log.WaitClosed(), absl::OkStatus());
  ASSERT_EQ(log.messages.size(), 500u);
  for (int i = 0; i < 500; ++i) EXPECT_EQ(log.messages[i].count(), i);
  Eventually([&] { return echo_.closed() == 1; });
}

TEST_F(StreamTest, TheServerCanEndASession) {
  Log log;
  const auto session = Chat(&log);
  ASSERT_EQ(session->Send(Message("hello")), absl::OkStatus());
  ASSERT_EQ(session->Send(Message("stop")), absl::OkStatus());
  EXPECT_EQ(log.WaitClosed(), absl::AbortedError("stopped"));
  EXPECT_EQ(log.messages.size(), 1u);
  EXPECT_EQ(session->Send(Message("late")).code(), absl::StatusCode::kCancelled);
  Eventually([&] { return echo_.closed() == 1; });
}

TEST_F(StreamTest, TheClientCanCancelASession) {
  Log log;
  const auto session = Chat(&log);
  ASSERT_EQ(session->Send(Message("hello")), absl::OkStatus());
  log.WaitMessages(1);
  session->Finish(absl::CancelledError("enough"));
  EXPECT_EQ(log.WaitClosed().code(), absl::StatusCode::kCancelled);
  Eventually([&] { return echo_.closed() == 1; });
}

TEST_F(StreamTest, ASlowPeerBoundsASession) {
  const auto release = std::make_shared<absl::Notification>();
  strand_.Post([release] { release->WaitForNotification(); });
  Log log;
  const auto session = Chat(&log);
  absl::Status status;
  for (int i = 0; i < 1024 && status.ok(); ++i) {
    status = session->Send(Message(std::string(64 << 10, 'x')));
    EXPECT_LE(session->queued_bytes(), kMaxQueuedBytes + (65 << 10));
  }
  EXPECT_EQ(status::Reason(status), "STREAM_FULL");
  release->Notify();
  session->Finish(absl::CancelledError("enough"));
  log.WaitClosed().IgnoreError();
}

TEST_F(StreamTest, APacedSessionReadsOneMessageAtATime) {
  echo_.set_paced();
  Log log;
  const auto session = Chat(&log);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(session->Send(Message("x", i)), absl::OkStatus());
  for (size_t n = 1; n <= 3; ++n) {
    log.WaitMessages(n);
    Eventually([&] { return echo_.held() == 1; });
    {
      absl::MutexLock lock(&log.mutex);
      EXPECT_EQ(log.messages.size(), n);
    }
    if (n < 3) echo_.ReadOn();
  }
  // It ends although nobody lets it read on.
  session->Finish(absl::CancelledError("enough"));
  EXPECT_EQ(log.WaitClosed().code(), absl::StatusCode::kCancelled);
  Eventually([&] { return echo_.closed() == 1; });
  echo_.ReadOn();
}

TEST_F(StreamTest, ALostRightEndsAnOpenSession) {
  Log log;
  const auto session = Chat(&log);
  ASSERT_EQ(session->Send(Message("hello")), absl::OkStatus());
  log.WaitMessages(1);
  access_.Refuse(absl::PermissionDeniedError("denied"));
  ASSERT_EQ(session->Send(Message("again")), absl::OkStatus());
  EXPECT_EQ(log.WaitClosed(), absl::PermissionDeniedError("denied"));
  EXPECT_EQ(log.messages.size(), 1u);
}

TEST_F(StreamTest, ShutdownEndsWhatItsOwnersLeftOpen) {
  Log log;
  const auto session = Chat(&log);
  ASSERT_EQ(session->Send(Message("hello")), absl::OkStatus());
  log.WaitMessages(1);
  server_->Shutdown(absl::Milliseconds(50));
  EXPECT_FALSE(log.WaitClosed().ok());
}

TEST_F(StreamTest, AStoppedClientStrandLeavesNothingBehind) {
  Log log;
  {
    const auto session = Chat(&log);
    ASSERT_EQ(session->Send(Message("hello")), absl::OkStatus());
    log.WaitMessages(1);
    client_.Stop();
    session->Send(Message("more")).IgnoreError();
  }
  Eventually([&] { return echo_.closed() == 1; });
}

TEST_F(StreamTest, CallsAndStreamsMayOutliveTheirStrand) {
  auto strand = std::make_unique<ThreadStrand>("short", &clock_);
  Log chat;
  Log count;
  const auto session = OpenSession(stub_.get(), &Async::Chat, strand.get(), chat.Callbacks());
  const auto reader =
      OpenStream(stub_.get(), &Async::Count, Message(std::string(64 << 10, 'x'), 60), strand.get(),
                 count.Callbacks());
  CallUnary(stub_.get(), &Async::Echo, Message("x"), {.deadline = kDeadline}, strand.get(),
            [](const absl::StatusOr<EchoMessage>&) {});
  Eventually([&] { return echo_.handled() == 3; });
  strand = nullptr;
  session->Finish(absl::CancelledError("enough"));
  reader->Cancel();
  Eventually([&] { return echo_.closed() == 1; });
}

TEST_F(StreamTest, MessagesOverTheLimitAreRefused) {
  absl::Notification done;
  CallUnary(stub_.get(), &Async::Echo, Message(std::string(kMaxMessageBytes + 1, 'x')), {},
            &client_, [&](const absl::StatusOr<EchoMessage>& response) {
              EXPECT_EQ(response.status().code(), absl::StatusCode::kResourceExhausted);
              done.Notify();
            });
  EXPECT_TRUE(done.WaitForNotificationWithTimeout(kDeadline));
}

}  // namespace
}  // namespace capstan::rpc
