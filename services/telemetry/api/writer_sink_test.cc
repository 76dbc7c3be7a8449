// Readers over the wire whom a stopping service drops: their calls end all the same.
#include "services/telemetry/api/writer_sink.h"

#include <memory>

#include "grpcpp/client_context.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "gtest/gtest.h"
#include "libs/auth/testing/fake_access.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/system_clock.h"
#include "proto/capstan/telemetry/v1/stream.grpc.pb.h"
#include "proto/capstan/telemetry/v1/stream.pb.h"
#include "proto/capstan/telemetry/v1/subscription.grpc.pb.h"
#include "proto/capstan/telemetry/v1/subscription.pb.h"
#include "services/telemetry/api/stream_service.h"
#include "services/telemetry/api/subscription_service.h"

namespace capstan::telemetry {
namespace {

class WriterSinkTest : public testing::Test {
 protected:
  WriterSinkTest() {
    // From now on it destroys what is posted.
    strand_.Stop();
    grpc::ServerBuilder builder;
    builder.RegisterService(&streams_);
    builder.RegisterService(&subscriptions_);
    server_ = builder.BuildAndStart();
    channel_ = server_->InProcessChannel(grpc::ChannelArguments());
  }

  const SystemClock clock_;
  ThreadStrand strand_{"telemetry", &clock_};
  auth::FakeAccess access_;
  // Nothing gets as far as to ask them anything.
  StreamServiceHandler streams_{&access_, /*streams=*/nullptr, &strand_};
  SubscriptionServiceHandler subscriptions_{&access_, /*subscriptions=*/nullptr, &strand_};
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  grpc::ClientContext context_;
};

TEST_F(WriterSinkTest, AReaderWhoIsDroppedIsToldSo) {
  const auto stub = v1::StreamService::NewStub(channel_);
  v1::ReadRecordsRequest request;
  request.set_stream("projects/p/jobs/j/streams/log");
  request.set_follow(true);
  const auto reader = stub->ReadRecords(&context_, request);
  v1::ReadRecordsResponse response;
  EXPECT_FALSE(reader->Read(&response));
  EXPECT_EQ(reader->Finish().error_message(), "telemetry is stopping");
}

TEST_F(WriterSinkTest, SoIsTheReaderOfASubscription) {
  const auto stub = v1::SubscriptionService::NewStub(channel_);
  v1::SubscribeRequest request;
  request.set_name("projects/p/subscriptions/s");
  request.set_follow(true);
  const auto reader = stub->Subscribe(&context_, request);
  v1::SubscribeResponse response;
  EXPECT_FALSE(reader->Read(&response));
  const grpc::Status end = reader->Finish();
  EXPECT_EQ(end.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(end.error_message(), "telemetry is stopping");
}

}  // namespace
}  // namespace capstan::telemetry
