#include <stdlib.h>
#include <sys/stat.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "grpcpp/client_context.h"
#include "gtest/gtest.h"
#include "libs/auth/testing/fake_access.h"
#include "libs/log/log.h"
#include "libs/log/testing_sink.h"
#include "libs/rpc/status_conversion.h"
#include "libs/status/error.h"
#include "libs/store/commit_queue.h"
#include "libs/store/memory_store.h"
#include "libs/store/store.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/system_clock.h"
#include "proto/capstan/dataloader/v1/dataset.grpc.pb.h"
#include "services/data_loader/core/loader_core.h"
#include "services/data_loader/server.h"

namespace capstan::data_loader {
namespace {

namespace pb = ::capstan::dataloader::v1;

// Two data_loaders over one store and one directory.
class ReplicaTest : public ::testing::Test {
 protected:
  ReplicaTest() {
    std::string pattern = absl::StrCat(::testing::TempDir(), "replica.XXXXXX");
    base_ = ::mkdtemp(pattern.data());
  }
  ~ReplicaTest() override { strand_.Stop(); }

  std::unique_ptr<Server> Start(const std::string& address, absl::Notification* lost) {
    ServerConfig config;
    config.advertised = address;
    config.replicated = true;
    config.site_directory = base_ + "/site";
    config.allowed_source_roots = {base_};
    config.page_token_key = "0123456789abcdef";
    ServerDeps deps;
    deps.clock = &clock_;
    deps.strand = &strand_;
    deps.store = &store_;
    deps.access = &access_;
    deps.logger = &logger_;
    deps.credentials = grpc::InsecureServerCredentials();
    deps.seed = ++seed_;
    deps.on_lost = [lost](const absl::Status& why) {
      EXPECT_FALSE(why.ok());
      lost->Notify();
    };
    auto server = Server::Create(config, deps);
    EXPECT_TRUE(server.ok()) << server.status();
    return *std::move(server);
  }

  absl::Status Create(Server& server, const std::string& id) {
    grpc::ClientContext context;
    pb::CreateDatasetRequest request;
    request.set_parent("projects/p");
    request.set_dataset_id(id);
    request.mutable_dataset()->set_source_uri(absl::StrCat("file://", base_, "/"));
    pb::Dataset response;
    return rpc::FromGrpcStatus(pb::DatasetService::NewStub(server.InProcessChannelForTest())
                                   ->CreateDataset(&context, request, &response));
  }
  // As a client does that keeps within a budget of retries.
  absl::Status CreateAtLast(Server& server, const std::string& id) {
    absl::Status created = Create(server, id);
    for (int i = 0; i < 400 && absl::IsUnavailable(created); ++i) {
      absl::Notification waited;
      strand_.Post([&] { strand_.RunAfter(absl::Milliseconds(50), [&] { waited.Notify(); }); });
      waited.WaitForNotification();
      created = Create(server, id);
    }
    return created;
  }
  static absl::Status Get(Server& server, const std::string& id) {
    grpc::ClientContext context;
    pb::GetDatasetRequest request;
    request.set_name(absl::StrCat("projects/p/datasets/", id));
    pb::Dataset response;
    return rpc::FromGrpcStatus(pb::DatasetService::NewStub(server.InProcessChannelForTest())
                                   ->GetDataset(&context, request, &response));
  }

  SystemClock clock_;
  log::TestingSink sink_;
  log::Logger logger_{"data_loader", &clock_, &sink_};
  auth::FakeAccess access_;
  std::string base_;
  uint64_t seed_ = 0;
  ThreadStrand strand_{"data_loader", &clock_};
  store::MemoryStore store_{&strand_};
  absl::Notification first_lost_;
  absl::Notification second_lost_;
};

TEST_F(ReplicaTest, OneActsBothShowAndTheOtherTakesOver) {
  auto first = Start("127.0.0.1:1", &first_lost_);
  ASSERT_TRUE(CreateAtLast(*first, "a").ok());
  const auto second = Start("127.0.0.1:2", &second_lost_);
  absl::Status refused = Create(*second, "b");
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(status::Reason(refused), store::kReasonNotLeader);
  for (Server* server : {first.get(), second.get()}) EXPECT_TRUE(Get(*server, "a").ok());
  first->Drain(absl::ZeroDuration());
  ASSERT_TRUE(CreateAtLast(*second, "b").ok());
  EXPECT_TRUE(Get(*second, "a").ok());
  EXPECT_TRUE(Get(*second, "b").ok());
  EXPECT_FALSE(first_lost_.HasBeenNotified()) << "it gave the Site up by itself";
}

TEST_F(ReplicaTest, WhoLosesTheSiteSaysSoAndDecidesNothingMore) {
  const auto first = Start("127.0.0.1:1", &first_lost_);
  ASSERT_TRUE(CreateAtLast(*first, "a").ok());
  // As if its lease had run out while it was stopped.
  absl::Notification removed;
  strand_.Post([&] {
    store::TxnRequest removal;
    removal.then.push_back(store::Delete{absl::StrCat(kKeyPrefix, "owner/sites/shared"), ""});
    store_.Txn(std::move(removal), [&](const absl::StatusOr<store::TxnResult>& done) {
      EXPECT_TRUE(done.ok());
      removed.Notify();
    });
  });
  removed.WaitForNotification();
  EXPECT_FALSE(Create(*first, "b").ok());
  EXPECT_EQ(Get(*first, "b").code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace capstan::data_loader
