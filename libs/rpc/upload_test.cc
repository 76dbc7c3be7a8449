// Client-streaming calls against a real server, without network.

#include "libs/rpc/upload.h"

#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/sync_stream.h"
#include "gtest/gtest.h"
#include "libs/auth/testing/fake_access.h"
#include "libs/rpc/server.h"
#include "libs/rpc/status_conversion.h"
#include "libs/rpc/testing/echo.grpc.pb.h"
#include "libs/rpc/testing/echo.pb.h"
#include "libs/rpc/testing/echo_server.h"
#include "libs/status/error.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/system_clock.h"

namespace capstan::rpc {
namespace {

using testing::EchoMessage;
using testing::EchoServer;
using testing::EchoService;

constexpr absl::Duration kDeadline = absl::Seconds(30);

// Admits what FakeAccess admits, if the resource is not `forbidden`.
class ResourceAccess final : public auth::Access {
 public:
  absl::StatusOr<auth::Caller> Authorize(const auth::Peer& peer, absl::string_view method,
                                         const google::protobuf::Message* request) override {
    absl::StatusOr<auth::Caller> caller = fake_.Authorize(peer, method, request);
    if (!caller.ok()) return caller;
    if (request == nullptr) return absl::InternalError("nothing to decide by");
    absl::MutexLock lock(&mutex_);
    ++decided_;
    if (caller->resource == "forbidden") return absl::PermissionDeniedError("no");
    return caller;
  }
  absl::Status Recheck(const auth::Caller& caller) override { return fake_.Recheck(caller); }

  void Refuse(const absl::Status& status) { fake_.Refuse(status); }
  int decided() const {
    absl::MutexLock lock(&mutex_);
    return decided_;
  }

 private:
  auth::FakeAccess fake_;
  mutable absl::Mutex mutex_;
  int decided_ ABSL_GUARDED_BY(mutex_) = 0;
};

class UploadTest : public ::testing::Test {
 protected:
  UploadTest() {
    ServerConfig config;
    config.services = {Registered<EchoService>(&echo_)};
    server_ = Server::Start(config).value();
    stub_ = EchoService::NewStub(server_->InProcessChannel());
  }
  ~UploadTest() override { server_ = nullptr; }

  // One call under way.
  struct Call {
    explicit Call(EchoService::Stub& stub) : writer(stub.Collect(&context, &response)) {}
    bool Write(const std::string& text) {
      EchoMessage message;
      message.set_text(text);
      return writer->Write(message);
    }
    // After the last message.
    absl::Status Finish() {
      writer->WritesDone();
      return FromGrpcStatus(writer->Finish());
    }
    // What the server said, before everything was sent.
    absl::Status Wait() { return FromGrpcStatus(writer->Finish()); }

    EchoMessage response;
    grpc::ClientContext context;
    const std::unique_ptr<grpc::ClientWriter<EchoMessage>> writer;
  };

  template <typename Condition>
  void Eventually(Condition condition) {
    const BootTime deadline = clock_.Read().boot + kDeadline;
    while (!condition()) {
      ASSERT_LT(clock_.Read().boot.ToNanoseconds(), deadline.ToNanoseconds());
      std::this_thread::yield();
    }
  }

  SystemClock clock_;
  ResourceAccess access_;
  ThreadStrand strand_{"server", &clock_};
  EchoServer echo_{&access_, &strand_};
  std::unique_ptr<Server> server_;
  std::unique_ptr<EchoService::Stub> stub_;
};

TEST_F(UploadTest, EveryMessageIsTakenOnce) {
  Call call(*stub_);
  for (int i = 0; i < 300; ++i) ASSERT_TRUE(call.Write("x"));
  EXPECT_EQ(call.Finish(), absl::OkStatus());
  EXPECT_EQ(call.response.count(), 299);
  EXPECT_EQ(access_.decided(), 1);
  Eventually([&] { return echo_.closed() == 1; });
}

TEST_F(UploadTest, TheFirstMessageDecidesWhoMay) {
  Call call(*stub_);
  call.Write("forbidden");
  EXPECT_EQ(call.Wait(), absl::PermissionDeniedError("no"));
  EXPECT_EQ(echo_.handled(), 0);
}

TEST_F(UploadTest, ACallWithoutMessagesIsDecidedByAnEmptyOne) {
  Call call(*stub_);
  EXPECT_EQ(call.Finish(), absl::OkStatus());
  EXPECT_EQ(access_.decided(), 1);
  access_.Refuse(absl::PermissionDeniedError("no"));
  Call refused(*stub_);
  EXPECT_EQ(refused.Finish(), absl::PermissionDeniedError("no"));
  EXPECT_EQ(echo_.handled(), 1);
}

TEST_F(UploadTest, ALostRightEndsAnOpenUpload) {
  Call call(*stub_);
  ASSERT_TRUE(call.Write("x"));
  Eventually([&] { return echo_.handled() == 1; });
  access_.Refuse(absl::PermissionDeniedError("denied"));
  call.Write("x");
  EXPECT_EQ(call.Wait(), absl::PermissionDeniedError("denied"));
  Eventually([&] { return echo_.closed() == 1; });
  EXPECT_EQ(echo_.ended(), 0);
}

TEST_F(UploadTest, RefusedMessagesEndTheCall) {
  Call first(*stub_);
  first.Write("bad");
  EXPECT_EQ(status::GetFieldViolations(first.Wait()).at(0).field, "text");
  Call later(*stub_);
  ASSERT_TRUE(later.Write("x"));
  later.Write("bad");
  EXPECT_EQ(status::GetFieldViolations(later.Wait()).at(0).field, "text");
  Eventually([&] { return echo_.closed() == 1; });
  EXPECT_EQ(echo_.ended(), 0);
}

TEST_F(UploadTest, MoreThanTheBoundIsRefused) {
  echo_.set_upload_limits({.max_bytes = 4 << 20});
  Call call(*stub_);
  const std::string text(64 << 10, 'x');
  int written = 0;
  while (written < 1000 && call.Write(text)) ++written;
  EXPECT_LT(written, 1000);
  EXPECT_EQ(status::Reason(call.Wait()), "UPLOAD_TOO_LARGE");
  Eventually([&] { return echo_.closed() == 1; });
}

TEST_F(UploadTest, ASilentClientIsGivenUp) {
  echo_.set_upload_limits({.per_message = absl::Milliseconds(20)});
  Call before_the_first(*stub_);
  EXPECT_EQ(status::Reason(before_the_first.Wait()), "UPLOAD_TOO_SLOW");
  Call call(*stub_);
  ASSERT_TRUE(call.Write("x"));
  EXPECT_EQ(status::Reason(call.Wait()), "UPLOAD_TOO_SLOW");
  Eventually([&] { return echo_.closed() == echo_.handled(); });
  EXPECT_EQ(echo_.ended(), 0);
}

TEST_F(UploadTest, AnEndlessClientIsGivenUp) {
  echo_.set_upload_limits({.max_bytes = int64_t{1} << 40, .total = absl::Milliseconds(50)});
  Call call(*stub_);
  while (call.Write("x")) {
  }
  EXPECT_EQ(status::Reason(call.Wait()), "UPLOAD_TOO_SLOW");
  Eventually([&] { return echo_.closed() == echo_.handled(); });
}

TEST_F(UploadTest, ABusyServerDoesNotBlameItsClient) {
  echo_.set_upload_limits({.per_message = absl::Milliseconds(500)});
  Call call(*stub_);
  ASSERT_TRUE(call.Write("x"));
  Eventually([&] { return echo_.handled() == 1; });
  absl::Notification blocked;
  absl::Notification release;
  strand_.Post([&] {
    blocked.Notify();
    release.WaitForNotification();
  });
  blocked.WaitForNotification();
  ASSERT_TRUE(call.Write("x"));
  const BootTime late = clock_.Read().boot + absl::Milliseconds(600);
  Eventually([&] { return clock_.Read().boot > late; });
  release.Notify();
  EXPECT_EQ(call.Finish(), absl::OkStatus());
}

TEST_F(UploadTest, CancelledUploadsAreDestroyed) {
  {
    Call call(*stub_);
    ASSERT_TRUE(call.Write("x"));
    Eventually([&] { return echo_.handled() == 1; });
    call.context.TryCancel();
    EXPECT_EQ(call.Wait().code(), absl::StatusCode::kCancelled);
  }
  Eventually([&] { return echo_.closed() == 1; });
}

TEST_F(UploadTest, ADroppedAnswerIsUnavailable) {
  Call call(*stub_);
  ASSERT_TRUE(call.Write("silent"));
  EXPECT_EQ(call.Finish().code(), absl::StatusCode::kUnavailable);
  Eventually([&] { return echo_.closed() == 1; });
}

TEST_F(UploadTest, AStoppedStrandEndsTheCall) {
  Call open(*stub_);
  ASSERT_TRUE(open.Write("x"));
  Eventually([&] { return echo_.handled() == 1; });
  strand_.Stop();
  open.Write("x");
  EXPECT_EQ(open.Wait().code(), absl::StatusCode::kUnavailable);
  Eventually([&] { return echo_.closed() == 1; });
  Call late(*stub_);
  EXPECT_EQ(late.Finish().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace capstan::rpc
