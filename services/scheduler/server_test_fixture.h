// What tests of the whole service over an in-process channel begin with.
#ifndef CAPSTAN_SERVICES_SCHEDULER_SERVER_TEST_FIXTURE_H_
#define CAPSTAN_SERVICES_SCHEDULER_SERVER_TEST_FIXTURE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/client_context.h"
#include "grpcpp/create_channel.h"
#include "gtest/gtest.h"
#include "libs/audit/audit_sink.h"
#include "libs/auth/testing/fake_access.h"
#include "libs/log/testing_sink.h"
#include "libs/metrics/registry.h"
#include "libs/rpc/status_conversion.h"
#include "libs/status/error.h"
#include "libs/store/memory_store.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/system_clock.h"
#include "libs/time/system_cpu_clock.h"
#include "proto/capstan/scheduler/v1/executor_session.grpc.pb.h"
#include "proto/capstan/scheduler/v1/job_service.grpc.pb.h"
#include "proto/capstan/scheduler/v1/node.grpc.pb.h"
#include "proto/capstan/scheduler/v1/queue.grpc.pb.h"
#include "services/scheduler/server.h"

namespace capstan::scheduler {

// Remembers what it is told, or refuses it with `status`.
class FakeAudit final : public audit::AuditSink {
 public:
  absl::Status Record(const audit::AuditEntry& entry) override {
    if (status.ok()) acts.push_back(entry.act);
    return status;
  }
  absl::Status status;
  std::vector<std::string> acts;
};

// One scheduler that owns its store, which is in memory.
class ServerTest : public ::testing::Test {
 protected:
  ServerTest() : logger_("scheduler", &clock_, &sink_) {
    server_ = Open(/*sole_owner=*/true, &metrics_);
    channel_ = server_->InProcessChannelForTest();
    jobs_ = capstan::scheduler::v1::JobService::NewStub(channel_);
    nodes_ = capstan::scheduler::v1::NodeService::NewStub(channel_);
    queues_ = capstan::scheduler::v1::QueueService::NewStub(channel_);
    sessions_ = capstan::scheduler::v1::ExecutorSession::NewStub(channel_);
  }
  ~ServerTest() override {
    server_.reset();
    strand_.Stop();
  }

  // Beside one that owns the store it only follows.
  std::unique_ptr<Server> Open(bool sole_owner, metrics::Registry* metrics) {
    ServerConfig config;
    config.sole_owner = sole_owner;
    config.page_token_key = "0123456789abcdef";
    config.demand.hold_for = absl::ZeroDuration();
    ServerDeps deps;
    deps.strand = &strand_;
    deps.store = &store_;
    deps.access = &access_;
    deps.audit = &audit_;
    deps.logger = &logger_;
    deps.metrics = metrics;
    deps.credentials = grpc::InsecureServerCredentials();
    // Nobody is there: Jobs without data do not need it.
    deps.data_loader =
        grpc::CreateChannel("unix:/nonexistent/socket", grpc::InsecureChannelCredentials());
    deps.seed = 1;
    deps.cpu = &cpu_;
    auto server = Server::Create(config, deps);
    EXPECT_TRUE(server.ok()) << server.status();
    return *std::move(server);
  }

  template <typename Stub, typename Request, typename Response>
  absl::StatusOr<Response> Call(Stub& stub,
                                grpc::Status (Stub::element_type::*method)(grpc::ClientContext*,
                                                                           const Request&,
                                                                           Response*),
                                const Request& request) {
    // Until it leads a scheduler says UNAVAILABLE: clients ask again.
    for (int i = 0; i < 100'000; ++i) {
      grpc::ClientContext context;
      Response response;
      const absl::Status status =
          rpc::FromGrpcStatus((stub.get()->*method)(&context, request, &response));
      if (status.ok()) return response;
      if (status::Reason(status) != "NOT_LEADER") return status;
    }
    return absl::DeadlineExceededError("it never led");
  }

  static capstan::scheduler::v1::CreateJobRequest CreateRequest(const std::string& id) {
    capstan::scheduler::v1::CreateJobRequest request;
    request.set_parent("projects/p");
    request.set_job_id(id);
    auto& group = *request.mutable_job()->mutable_spec()->add_task_groups();
    group.set_name("w");
    group.set_replicas(1);
    group.add_argv("/bin/true");
    group.mutable_resources()->set_cpu_millis(500);
    group.mutable_resources()->set_memory_bytes(1 << 20);
    return request;
  }
  absl::StatusOr<capstan::scheduler::v1::Job> Create(
      const capstan::scheduler::v1::CreateJobRequest& request) {
    return Call(jobs_, &capstan::scheduler::v1::JobService::Stub::CreateJob, request);
  }
  absl::StatusOr<capstan::scheduler::v1::Job> Get(const std::string& name) {
    capstan::scheduler::v1::GetJobRequest request;
    request.set_name(name);
    return Call(jobs_, &capstan::scheduler::v1::JobService::Stub::GetJob, request);
  }

  static capstan::type::v1::NodeObservation NodeOf(const std::string& id, int64_t cpu_millis) {
    capstan::type::v1::NodeObservation node;
    node.set_node(id);
    node.mutable_allocatable()->set_cpu_millis(cpu_millis);
    node.mutable_allocatable()->set_memory_bytes(1 << 30);
    return node;
  }
  // The session of an executor of Cluster `local` that has told of these Nodes, and was heard. Who
  // calls after that is a person again.
  std::unique_ptr<
      grpc::ClientReaderWriter<capstan::type::v1::SessionUp, capstan::type::v1::SessionDown>>
  Connect(const std::vector<capstan::type::v1::NodeObservation>& nodes,
          grpc::ClientContext* context) {
    access_.CallAs(auth::SpiffeId::Executor("test.capstan.dev", "local"));
    auto stream = sessions_->Connect(context);
    capstan::type::v1::SessionUp up;
    up.mutable_hello()->set_cluster("local");
    up.mutable_hello()->set_incarnation(1);
    EXPECT_TRUE(stream->Write(up));
    up.mutable_observations()->set_journal_sequence(1);
    up.mutable_observations()->set_sync_complete(true);
    for (const capstan::type::v1::NodeObservation& node : nodes)
      *up.mutable_observations()->add_nodes() = node;
    EXPECT_TRUE(stream->Write(up));
    capstan::type::v1::SessionDown down;
    while (stream->Read(&down) && !down.has_observations_ack()) {
    }
    access_.CallAs(auth::SpiffeId::Person("test.capstan.dev", "1000"));
    return stream;
  }

  SystemClock clock_;
  SystemCpuClock cpu_;
  log::TestingSink sink_;
  log::Logger logger_;
  metrics::Registry metrics_{"scheduler"};
  auth::FakeAccess access_;
  FakeAudit audit_;
  ThreadStrand strand_{"scheduler", &clock_};
  store::MemoryStore store_{&strand_};
  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<capstan::scheduler::v1::JobService::Stub> jobs_;
  std::unique_ptr<capstan::scheduler::v1::NodeService::Stub> nodes_;
  std::unique_ptr<capstan::scheduler::v1::QueueService::Stub> queues_;
  std::unique_ptr<capstan::scheduler::v1::ExecutorSession::Stub> sessions_;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_SERVER_TEST_FIXTURE_H_
