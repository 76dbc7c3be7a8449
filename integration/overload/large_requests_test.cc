// Messages and headers that are too large, at each part that answers calls.
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "google/protobuf/wrappers.pb.h"
#include "grpcpp/client_context.h"
#include "grpcpp/generic/generic_stub.h"
#include "gtest/gtest.h"
#include "integration/access/raw_call.h"
#include "integration/overload/call_storm.h"
#include "integration/overload/overload_fixture.h"
#include "libs/rpc/call.h"
#include "libs/rpc/identity.h"

namespace capstan::integration {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(20);
constexpr int kMessages = 20;
constexpr int kFloods = 50;
// Together a MiB.
constexpr int kHeaders = 256;
constexpr size_t kHeaderBytes = 4096;

struct Target {
  const char* part;
  const char* method;
  // Only who may call the executor gets as far as a message.
  bool as_node = false;
};

constexpr Target kTargets[] = {
    {"cluster_manager", "/capstan.clustermanager.v1.ClusterService/ListClusters"},
    {"credentials", "/capstan.credentials.v1.AccessService/GetCallerAccess"},
    {"data_loader", "/capstan.dataloader.v1.DatasetService/ListDatasets"},
    {"executor", "/capstan.executor.v1.AgentSession/Connect", true},
    {"scheduler", "/capstan.scheduler.v1.JobService/ListJobs"},
    {"telemetry", "/capstan.telemetry.v1.ArchiveService/ListArchivedJobs"},
};

TEST_F(OverloadTest, MessagesThatAreTooLarge) {
  google::protobuf::StringValue giant;
  giant.set_value(std::string(16 << 20, 'x'));
  const auto node = IdentityOf("/node/local/giant");
  for (const auto& [part, method, as_node] : kTargets) {
    const auto channel = DialUnbounded(part, as_node ? node : researcher());
    for (int i = 0; i < kMessages; ++i) {
      const grpc::Status status = RawCall(channel, method, giant, kPatience);
      EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED)
          << part << ": " << status.error_message();
    }
    StormIsOver();
  }
}

grpc::Status CallWithHeaders(const std::shared_ptr<grpc::Channel>& channel,
                             const std::string& method) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  rpc::SetDeadline(context, kPatience);
  for (int i = 0; i < kHeaders; ++i) {
    context.AddMetadata(absl::StrCat("x-flood-", i), std::string(kHeaderBytes, 'x'));
  }
  const grpc::ByteBuffer request = BufferOf("");
  grpc::ByteBuffer answer;
  grpc::Status status;
  absl::Notification over;
  stub.UnaryCall(&context, method, grpc::StubOptions(), &request, &answer,
                 [&](const grpc::Status& end) {
                   status = end;
                   over.Notify();
                 });
  over.WaitForNotification();
  return status;
}

TEST_F(OverloadTest, HeadersThatAreTooLarge) {
  const auto node = IdentityOf("/node/local/flood");
  for (const auto& [part, method, as_node] : kTargets) {
    const auto channel = DialUnbounded(part, as_node ? node : researcher());
    for (int i = 0; i < kFloods; ++i) {
      const grpc::Status status = CallWithHeaders(channel, method);
      // Told so, or the connection is ended.
      EXPECT_TRUE(status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED ||
                  status.error_code() == grpc::StatusCode::UNAVAILABLE)
          << part << ": " << status.error_code() << ": " << status.error_message();
    }
    StormIsOver();
  }
}

}  // namespace
}  // namespace capstan::integration
