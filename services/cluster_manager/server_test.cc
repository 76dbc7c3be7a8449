#include "services/cluster_manager/server.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "grpcpp/client_context.h"
#include "gtest/gtest.h"
#include "libs/auth/testing/fake_access.h"
#include "libs/log/log.h"
#include "libs/log/testing_sink.h"
#include "libs/metrics/registry.h"
#include "libs/rpc/server.h"
#include "libs/rpc/server_stream.h"
#include "libs/rpc/unary.h"
#include "libs/store/memory_store.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/system_clock.h"
#include "proto/capstan/clustermanager/v1/cluster.grpc.pb.h"
#include "proto/capstan/scheduler/v1/node.grpc.pb.h"

namespace capstan::cluster_manager {
namespace {

namespace pb = ::capstan::clustermanager::v1;
namespace sched = ::capstan::scheduler::v1;

constexpr char kOwner[] = "spiffe://d/svc/cluster_manager";

// The scheduler's NodeService with one Node whose disk is full.
class OneNodeScheduler final : public sched::NodeService::CallbackService {
 public:
  explicit OneNodeScheduler(auth::Access* access) : access_(access) {
    node_.set_name("clusters/local/nodes/a");
    node_.set_state(sched::Node::STATE_ACTIVE);
    node_.add_limitations(type::v1::NodeObservation::LIMITATION_DISK_FULL);
  }

  grpc::ServerWriteReactor<sched::WatchNodesResponse>* WatchNodes(
      grpc::CallbackServerContext* context, const sched::WatchNodesRequest* request) override {
    return rpc::HandleServerStream<sched::WatchNodesResponse>(
        context, access_, "/capstan.scheduler.v1.NodeService/WatchNodes", request,
        rpc::NothingToValidate(), [this](auto writer, const sched::WatchNodesRequest&) {
          absl::MutexLock lock(&mutex_);
          writer_ = std::move(writer);
          sched::WatchNodesResponse response;
          *response.mutable_node() = node_;
          EXPECT_TRUE(writer_->Write(response).ok());
          response.set_synced(true);
          EXPECT_TRUE(writer_->Write(response).ok());
        });
  }

  grpc::ServerUnaryReactor* CordonNode(grpc::CallbackServerContext* context,
                                       const sched::CordonNodeRequest* request,
                                       sched::Node* response) override {
    return rpc::HandleUnary(context, access_, "/capstan.scheduler.v1.NodeService/CordonNode",
                            request, response, rpc::NothingToValidate(),
                            [this](const rpc::Call&, const sched::CordonNodeRequest& request,
                                   sched::Node* response, rpc::Finish finish) {
                              absl::MutexLock lock(&mutex_);
                              auto* cordon = node_.add_cordons();
                              cordon->set_owner(kOwner);
                              cordon->set_reason(request.reason());
                              *response = node_;
                              finish(absl::OkStatus());
                              if (!cordoned.HasBeenNotified()) cordoned.Notify();
                            });
  }

  absl::Notification cordoned;

 private:
  auth::Access* const access_;
  absl::Mutex mutex_;
  sched::Node node_;
  std::shared_ptr<rpc::ServerStreamWriter<sched::WatchNodesResponse>> writer_;
};

// A scheduler, a store, and cluster managers over both.
class ServerTest : public ::testing::Test {
 protected:
  ServerTest() {
    rpc::ServerConfig config;
    config.services = {rpc::Registered<sched::NodeService>(&scheduler_)};
    scheduler_server_ = *rpc::Server::Start(config);
  }
  ~ServerTest() override {
    scheduler_server_->Shutdown(absl::ZeroDuration());
    strand_.Stop();
  }

  std::unique_ptr<Server> Start(const std::string& member, metrics::Registry* metrics) {
    ServerConfig config;
    config.owner = kOwner;
    config.advertised = member;
    config.raise_after = absl::ZeroDuration();
    config.page_token_key = "0123456789abcdef";
    ServerDeps deps;
    deps.strand = &strand_;
    deps.store = &store_;
    deps.access = &access_;
    deps.logger = &logger_;
    deps.metrics = metrics;
    deps.scheduler = scheduler_server_->InProcessChannel();
    auto server = Server::Create(config, deps);
    EXPECT_TRUE(server.ok()) << server.status();
    return *std::move(server);
  }

  SystemClock clock_;
  log::TestingSink sink_;
  log::Logger logger_{"cluster_manager", &clock_, &sink_};
  auth::FakeAccess access_;
  OneNodeScheduler scheduler_{&access_};
  std::unique_ptr<rpc::Server> scheduler_server_;
  ThreadStrand strand_{"cluster_manager", &clock_};
  store::MemoryStore store_{&strand_};
};

TEST_F(ServerTest, CordonsThroughTheSchedulerAndShowsTheVerdict) {
  metrics::Registry metrics("cluster_manager");
  const auto server = Start("a", &metrics);
  ASSERT_TRUE(scheduler_.cordoned.WaitForNotificationWithTimeout(absl::Seconds(30)));

  // The verdict was stored before the act.
  auto stub = pb::ClusterService::NewStub(server->InProcessChannelForTest());
  grpc::ClientContext get_context;
  pb::GetClusterRequest get;
  get.set_name("clusters/local");
  pb::Cluster cluster;
  ASSERT_TRUE(stub->GetCluster(&get_context, get, &cluster).ok());
  EXPECT_EQ(cluster.unhealthy_node_count(), 1);
  ASSERT_EQ(cluster.verdicts_size(), 1);
  EXPECT_EQ(cluster.verdicts(0).findings(0), "DISK_FULL");
  grpc::ClientContext list_context;
  pb::ListClustersResponse list;
  ASSERT_TRUE(stub->ListClusters(&list_context, pb::ListClustersRequest(), &list).ok());
  EXPECT_EQ(list.clusters_size(), 1);
  grpc::ClientContext absent_context;
  get.set_name("clusters/other");
  EXPECT_EQ(stub->GetCluster(&absent_context, get, &cluster).error_code(),
            grpc::StatusCode::NOT_FOUND);
}

TEST_F(ServerTest, WhoeverOfTheReplicasIsAskedAnswersForAll) {
  metrics::Registry first_metrics("cluster_manager");
  metrics::Registry second_metrics("cluster_manager");
  auto first = Start("a", &first_metrics);
  const auto second = Start("b", &second_metrics);
  ASSERT_TRUE(scheduler_.cordoned.WaitForNotificationWithTimeout(absl::Seconds(30)));
  for (Server* server : {first.get(), second.get()}) {
    auto stub = pb::ClusterService::NewStub(server->InProcessChannelForTest());
    grpc::ClientContext context;
    pb::GetClusterRequest get;
    get.set_name("clusters/local");
    pb::Cluster cluster;
    ASSERT_TRUE(stub->GetCluster(&context, get, &cluster).ok());
    EXPECT_EQ(cluster.unhealthy_node_count(), 1);
  }
  first.reset();
}

}  // namespace
}  // namespace capstan::cluster_manager
