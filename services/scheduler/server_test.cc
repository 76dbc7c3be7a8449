// The whole service over an in-process channel: what a client sees.
#include "services/scheduler/server.h"

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "grpcpp/client_context.h"
#include "grpcpp/create_channel.h"
#include "gtest/gtest.h"
#include "libs/audit/audit_sink.h"
#include "libs/auth/testing/fake_access.h"
#include "libs/log/testing_sink.h"
#include "libs/rpc/status_conversion.h"
#include "libs/status/error.h"
#include "libs/store/memory_store.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/proto_time.h"
#include "libs/time/system_clock.h"
#include "libs/time/system_cpu_clock.h"
#include "proto/capstan/scheduler/v1/capacity_order.grpc.pb.h"
#include "proto/capstan/scheduler/v1/executor_session.grpc.pb.h"
#include "proto/capstan/scheduler/v1/job_service.grpc.pb.h"
#include "proto/capstan/scheduler/v1/node.grpc.pb.h"
#include "proto/capstan/scheduler/v1/queue.grpc.pb.h"
#include "proto/capstan/scheduler/v1/simulation_service.grpc.pb.h"

namespace capstan::scheduler {
namespace {

namespace pb = ::capstan::scheduler::v1;
using capstan::type::v1::DesiredTask;
using capstan::type::v1::NodeObservation;
using capstan::type::v1::SessionDown;
using capstan::type::v1::SessionUp;
using capstan::type::v1::TaskObservation;

constexpr char kRequestId[] = "0b9d2a34-5c6d-4e7f-8a9b-0c1d2e3f4a5b";

class FakeAudit final : public audit::AuditSink {
 public:
  absl::Status Record(const audit::AuditEntry& entry) override {
    if (status.ok()) acts.push_back(entry.act);
    return status;
  }
  absl::Status status;
  std::vector<std::string> acts;
};

class ServerTest : public ::testing::Test {
 protected:
  ServerTest() : logger_("scheduler", &clock_, &sink_) {
    server_ = Open(/*sole_owner=*/true, &metrics_);
    channel_ = server_->InProcessChannelForTest();
    jobs_ = pb::JobService::NewStub(channel_);
    nodes_ = pb::NodeService::NewStub(channel_);
    queues_ = pb::QueueService::NewStub(channel_);
    sessions_ = pb::ExecutorSession::NewStub(channel_);
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

  static pb::CreateJobRequest CreateRequest(const std::string& id) {
    pb::CreateJobRequest request;
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
  absl::StatusOr<pb::Job> Create(const pb::CreateJobRequest& request) {
    return Call(jobs_, &pb::JobService::Stub::CreateJob, request);
  }
  absl::StatusOr<pb::Job> Get(const std::string& name) {
    pb::GetJobRequest request;
    request.set_name(name);
    return Call(jobs_, &pb::JobService::Stub::GetJob, request);
  }

  static NodeObservation NodeOf(const std::string& id, int64_t cpu_millis) {
    NodeObservation node;
    node.set_node(id);
    node.mutable_allocatable()->set_cpu_millis(cpu_millis);
    node.mutable_allocatable()->set_memory_bytes(1 << 30);
    return node;
  }
  // The session of an executor of Cluster `local` that has told of these Nodes, and was heard. Who
  // calls after that is a person again.
  std::unique_ptr<grpc::ClientReaderWriter<SessionUp, SessionDown>> Connect(
      const std::vector<NodeObservation>& nodes, grpc::ClientContext* context) {
    access_.CallAs(auth::SpiffeId::Executor("test.capstan.dev", "local"));
    auto stream = sessions_->Connect(context);
    SessionUp up;
    up.mutable_hello()->set_cluster("local");
    up.mutable_hello()->set_incarnation(1);
    EXPECT_TRUE(stream->Write(up));
    up.mutable_observations()->set_journal_sequence(1);
    up.mutable_observations()->set_sync_complete(true);
    for (const NodeObservation& node : nodes) *up.mutable_observations()->add_nodes() = node;
    EXPECT_TRUE(stream->Write(up));
    SessionDown down;
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
  std::unique_ptr<pb::JobService::Stub> jobs_;
  std::unique_ptr<pb::NodeService::Stub> nodes_;
  std::unique_ptr<pb::QueueService::Stub> queues_;
  std::unique_ptr<pb::ExecutorSession::Stub> sessions_;
};

TEST_F(ServerTest, SubmitsIdempotentlyGetsListsAndExplains) {
  pb::CreateJobRequest request = CreateRequest("a");
  request.set_request_id(kRequestId);
  const auto made = Create(request);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->submitter(), "spiffe://test.capstan.dev/person/1000");
  EXPECT_EQ(Create(request)->uid(), made->uid());
  request.mutable_job()->mutable_spec()->set_priority(1);
  EXPECT_EQ(status::Reason(Create(request).status()), "REQUEST_ID_REUSED");
  EXPECT_EQ(Get("projects/p/jobs/a")->uid(), made->uid()) << "what was answered is read";
  EXPECT_EQ(Get("projects/p/jobs/b").status().code(), absl::StatusCode::kNotFound);

  for (const char* id : {"b", "c"}) ASSERT_TRUE(Create(CreateRequest(id)).ok());
  pb::ListJobsRequest list;
  list.set_parent("projects/p");
  list.set_page_size(2);
  auto page = Call(jobs_, &pb::JobService::Stub::ListJobs, list);
  ASSERT_EQ(page->jobs_size(), 2);
  EXPECT_EQ(page->jobs(0).name(), "projects/p/jobs/c") << "newest first";
  list.set_page_token(page->next_page_token());
  page = Call(jobs_, &pb::JobService::Stub::ListJobs, list);
  ASSERT_EQ(page->jobs_size(), 1);
  EXPECT_TRUE(page->next_page_token().empty());
  list.set_filter("state=RUNNING");
  EXPECT_FALSE(Call(jobs_, &pb::JobService::Stub::ListJobs, list).ok())
      << "the token is of another list";
  list.clear_page_token();
  EXPECT_EQ(Call(jobs_, &pb::JobService::Stub::ListJobs, list)->jobs_size(), 0);
  list.set_filter("state=NONSENSE");
  EXPECT_EQ(
      status::GetFieldViolations(Call(jobs_, &pb::JobService::Stub::ListJobs, list).status())[0]
          .field,
      "filter");

  pb::ExplainJobRequest explain;
  explain.set_name("projects/p/jobs/c");
  const auto explained = Call(jobs_, &pb::JobService::Stub::ExplainJob, explain);
  EXPECT_EQ(explained->summary(), "no node is known yet");
  EXPECT_EQ(explained->jobs_ahead(), 2);
}

TEST_F(ServerTest, SimulatesWithoutAnyEffect) {
  pb::SimulatePlacementRequest request;
  request.set_parent("projects/p");
  *request.add_jobs() = CreateRequest("a").job().spec();
  const auto simulate = [&] {
    return Call(jobs_, &pb::JobService::Stub::SimulatePlacement, request);
  };
  // Until it leads for the first time there is no Queue.
  ASSERT_TRUE(Create(CreateRequest("there")).ok());
  for (int i = 0; i < 3; ++i) {
    const auto simulated = simulate();
    ASSERT_TRUE(simulated.ok()) << simulated.status();
    ASSERT_EQ(simulated->jobs_size(), 1);
    EXPECT_EQ(simulated->jobs(0).outcome(),
              pb::SimulatePlacementResponse::JobOutcome::OUTCOME_WAITS);
    EXPECT_EQ(simulated->jobs(0).summary(), "no node is known yet");
    EXPECT_EQ(simulated->others().waiting(), 1);
  }
  pb::ListJobsRequest list;
  list.set_parent("projects/p");
  EXPECT_EQ(Call(jobs_, &pb::JobService::Stub::ListJobs, list)->jobs_size(), 1);
  request.mutable_jobs(0)->set_queue("queues/absent");
  auto violations = status::GetFieldViolations(simulate().status());
  ASSERT_EQ(violations.size(), 1u);
  EXPECT_EQ(violations[0].field, "jobs[0].queue");
  request.mutable_jobs(0)->mutable_task_groups(0)->set_replicas(0);
  violations = status::GetFieldViolations(simulate().status());
  ASSERT_EQ(violations.size(), 1u);
  EXPECT_EQ(violations[0].field, "jobs[0].task_groups[0].replicas");
}

// All messages of a stream, and how it ended.
absl::Status ReadChanges(const std::shared_ptr<grpc::Channel>& channel,
                         const pb::SimulateChangesRequest& request,
                         std::vector<pb::SimulateChangesResponse>* messages) {
  grpc::ClientContext context;
  const auto stub = pb::SimulationService::NewStub(channel);
  auto reader = stub->SimulateChanges(&context, request);
  messages->clear();
  pb::SimulateChangesResponse message;
  while (reader->Read(&message)) messages->push_back(message);
  return rpc::FromGrpcStatus(reader->Finish());
}

TEST_F(ServerTest, WhoFollowsAnswersBatchesOfSimulations) {
  grpc::ClientContext executor_context;
  const auto stream = Connect({NodeOf("n", 1000)}, &executor_context);
  // One that runs, or is about to, and one that waits.
  ASSERT_TRUE(Create(CreateRequest("there")).ok());
  pb::CreateJobRequest large = CreateRequest("large");
  large.mutable_job()->mutable_spec()->mutable_task_groups(0)->mutable_resources()->set_cpu_millis(
      1000);
  ASSERT_TRUE(Create(large).ok());
  metrics::Registry metrics("scheduler");
  const std::unique_ptr<Server> follower = Open(/*sole_owner=*/false, &metrics);
  const auto channel = follower->InProcessChannelForTest();

  pb::SimulateChangesRequest request;
  request.set_parent("projects/p");
  auto& add = *request.add_alternatives()->add_node_changes()->mutable_add();
  add.set_count(2);
  add.set_like("clusters/local/nodes/n");
  *request.add_alternatives()->add_jobs() = CreateRequest("a").job().spec();
  request.add_alternatives()->add_node_changes()->set_cordon("clusters/local/nodes/absent");
  *request.add_alternatives()->add_jobs() = large.job().spec();

  std::vector<pb::SimulateChangesResponse> messages;
  const absl::Status answered = ReadChanges(channel, request, &messages);
  ASSERT_TRUE(answered.ok()) << answered;
  ASSERT_EQ(messages.size(), 5u);
  for (const pb::SimulateChangesResponse& message : messages) {
    EXPECT_EQ(message.state_revision(), messages[0].state_revision());
    EXPECT_EQ(ToTime(message.state_time()), ToTime(messages[0].state_time()));
  }
  EXPECT_GT(messages[0].state_revision(), 0);
  const auto stub = pb::JobService::NewStub(channel);
  for (int i : {0, 1, 3}) {
    ASSERT_EQ(messages[i].answer().index(), i);
    ASSERT_TRUE(messages[i].answer().has_response()) << messages[i].ShortDebugString();
    pb::SimulatePlacementRequest single;
    single.set_parent(request.parent());
    *single.mutable_jobs() = request.alternatives(i).jobs();
    *single.mutable_node_changes() = request.alternatives(i).node_changes();
    auto alone = Call(stub, &pb::JobService::Stub::SimulatePlacement, single);
    ASSERT_TRUE(alone.ok()) << alone.status();
    pb::SimulatePlacementResponse response = messages[i].answer().response();
    EXPECT_EQ(ToTime(response.state_time()), ToTime(messages[i].state_time()));
    // The clock goes on between them.
    for (pb::SimulatePlacementResponse* one : {&response, &*alone}) {
      one->clear_state_time();
      for (auto& job : *one->mutable_jobs()) job.clear_counterfactuals();
    }
    EXPECT_EQ(response.ShortDebugString(), alone->ShortDebugString());
  }
  EXPECT_EQ(messages[0].answer().response().others().started(), 1);
  ASSERT_EQ(messages[2].answer().index(), 2);
  const absl::Status refused = rpc::FromStatusProto(messages[2].answer().error());
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_EQ(status::GetFieldViolations(refused)[0].field, "alternatives[2].node_changes[0].cordon");
  EXPECT_EQ(messages[4].summary().simulated_count(), 3);
  EXPECT_EQ(messages[4].summary().refused_count(), 1);
  EXPECT_GT(ToDuration(messages[4].summary().cpu_time()), absl::ZeroDuration());

  // Who leads does not, unless it may.
  const absl::Status leads = ReadChanges(channel_, request, &messages);
  EXPECT_EQ(leads.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status::Reason(leads), "LEADS") << leads;
  EXPECT_TRUE(messages.empty());
  request.set_allow_leader(true);
  const absl::Status allowed = ReadChanges(channel_, request, &messages);
  EXPECT_TRUE(allowed.ok()) << allowed;
  EXPECT_EQ(messages.size(), 5u);

  // Who goes away calls it off; others are answered after that.
  {
    grpc::ClientContext context;
    const auto simulations = pb::SimulationService::NewStub(channel);
    auto reader = simulations->SimulateChanges(&context, request);
    context.TryCancel();
    EXPECT_FALSE(reader->Finish().ok());
  }
  EXPECT_TRUE(ReadChanges(channel, request, &messages).ok());
}

TEST_F(ServerTest, ABatchThatIsWrongWhateverIsStoredIsRefusedAsAWhole) {
  std::vector<pb::SimulateChangesResponse> messages;
  pb::SimulateChangesRequest request;
  const auto violation = [&] {
    const auto violations = status::GetFieldViolations(ReadChanges(channel_, request, &messages));
    EXPECT_TRUE(messages.empty());
    return violations.empty() ? "" : violations[0].field;
  };
  EXPECT_EQ(violation(), "parent");
  request.set_parent("projects/p");
  EXPECT_EQ(violation(), "alternatives");
  for (int i = 0; i < 65; ++i) {
    request.add_alternatives()->add_node_changes()->set_cordon("clusters/local/nodes/n");
  }
  EXPECT_EQ(violation(), "alternatives");
  request.mutable_alternatives()->RemoveLast();
  request.mutable_alternatives(5)->mutable_node_changes(0)->set_remove("n");
  EXPECT_EQ(violation(), "alternatives[5].node_changes[0].remove");
  request.mutable_alternatives(4)->clear_node_changes();
  EXPECT_EQ(violation(), "alternatives[4].jobs");
  request.clear_alternatives();
  for (int i = 0; i < 11; ++i) {
    pb::JobSpec& spec = *request.add_alternatives()->add_jobs();
    spec = CreateRequest("a").job().spec();
    for (int k = 0; k < 60; ++k) {
      spec.add_after()->set_job(absl::StrCat("projects/p/jobs/j", k));
    }
  }
  EXPECT_EQ(violation(), "alternatives");
}

TEST_F(ServerTest, ChangesHoldsAndReleasesJobs) {
  ASSERT_TRUE(Create(CreateRequest("a")).ok());
  grpc::ClientContext context;
  pb::WatchJobsRequest watch;
  watch.set_parent("projects/p");
  auto reader = jobs_->WatchJobs(&context, watch);
  pb::WatchJobsResponse seen;
  while (reader->Read(&seen) && !seen.synced()) {
  }
  pb::UpdateJobRequest request;
  const auto update = [&] { return Call(jobs_, &pb::JobService::Stub::UpdateJob, request); };
  EXPECT_EQ(status::GetFieldViolations(update().status())[0].field, "job.name");
  request.mutable_job()->set_name("projects/p/jobs/a");
  EXPECT_EQ(status::GetFieldViolations(update().status())[0].field, "update_mask");
  request.mutable_job()->set_hold(true);
  request.mutable_job()->mutable_spec()->set_priority(5);
  request.mutable_update_mask()->add_paths("spec.priority");
  request.mutable_update_mask()->add_paths("hold");
  request.mutable_job()->set_etag("\"7000\"");
  EXPECT_EQ(update().status().code(), absl::StatusCode::kAborted);
  request.mutable_job()->set_etag(Get("projects/p/jobs/a")->etag());
  request.set_validate_only(true);
  EXPECT_TRUE(update()->hold());
  EXPECT_FALSE(Get("projects/p/jobs/a")->hold());
  request.set_validate_only(false);
  const auto held = update();
  ASSERT_TRUE(held.ok()) << held.status();
  EXPECT_EQ(held->reason(), "HELD");
  const auto read = Get("projects/p/jobs/a");
  EXPECT_EQ(read->SerializeAsString(), held->SerializeAsString()) << "what was answered is read";
  EXPECT_EQ(read->spec().priority(), 5);
  ASSERT_TRUE(reader->Read(&seen));
  EXPECT_TRUE(seen.job().hold());
  pb::ExplainJobRequest explain;
  explain.set_name("projects/p/jobs/a");
  const auto why = Call(jobs_, &pb::JobService::Stub::ExplainJob, explain);
  ASSERT_EQ(why->constraints_size(), 1);
  EXPECT_EQ(why->constraints(0).type(), "held");
  EXPECT_EQ(why->constraints(0).level(), pb::ExplainJobResponse::Constraint::LEVEL_JOB);
  EXPECT_TRUE(absl::StrContains(why->summary(), "capstan job release projects/p/jobs/a"));
  // Stale now.
  EXPECT_EQ(update().status().code(), absl::StatusCode::kAborted);
  request.mutable_job()->clear_etag();
  request.mutable_job()->set_hold(false);
  EXPECT_EQ(update()->reason(), "INSUFFICIENT_RESOURCES");
  context.TryCancel();
}

// More records than a transaction holds: answered once all are stored, and read from then on.
TEST_F(ServerTest, MakesTheLargestArrayAndListsItsElements) {
  ASSERT_TRUE(Create(CreateRequest("other")).ok());
  pb::CreateJobRequest request = CreateRequest("sweep");
  request.set_request_id(kRequestId);
  request.mutable_job()->mutable_spec()->mutable_array()->set_size(1000);
  const auto made = Create(request);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->array().size(), 1000);
  EXPECT_EQ(Create(request)->uid(), made->uid());
  const auto last = Get("projects/p/jobs/sweep-999");
  ASSERT_TRUE(last.ok()) << last.status();
  EXPECT_EQ(last->element().index(), 999);
  EXPECT_EQ(last->element().array(), made->name());
  pb::ListJobsRequest list;
  list.set_parent("projects/p");
  list.set_page_size(1000);
  list.set_filter("array=projects/p/jobs/sweep");
  int listed = 0;
  do {
    const auto page = Call(jobs_, &pb::JobService::Stub::ListJobs, list);
    ASSERT_TRUE(page.ok()) << page.status();
    for (const pb::Job& job : page->jobs()) EXPECT_EQ(job.element().array(), made->name());
    listed += page->jobs_size();
    list.set_page_token(page->next_page_token());
  } while (!list.page_token().empty());
  EXPECT_EQ(listed, 1000);
}

TEST_F(ServerTest, RefusesWithTheFieldsThatAreWrong) {
  pb::CreateJobRequest request = CreateRequest("Bad");
  request.set_request_id("not-a-uuid");
  request.mutable_job()->mutable_spec()->mutable_task_groups(0)->set_replicas(0);
  const auto violations = status::GetFieldViolations(Create(request).status());
  ASSERT_EQ(violations.size(), 3u);
  EXPECT_EQ(violations[0].field, "job_id");
  EXPECT_EQ(violations[2].field, "job.spec.task_groups[0].replicas");
}

TEST_F(ServerTest, CarriesAGangFromAnExecutorsStreamToAWatcher) {
  pb::UpdateQueueRequest remember;
  remember.mutable_queue()->set_name("queues/default");
  remember.mutable_queue()->mutable_usage_half_life()->set_seconds(1);
  remember.mutable_update_mask()->add_paths("usage_half_life");
  EXPECT_EQ(status::GetFieldViolations(
                Call(queues_, &pb::QueueService::Stub::UpdateQueue, remember).status())[0]
                .field,
            "queue.usage_half_life");
  remember.mutable_queue()->mutable_usage_half_life()->set_seconds(3600);
  ASSERT_TRUE(Call(queues_, &pb::QueueService::Stub::UpdateQueue, remember).ok());
  ASSERT_TRUE(Create(CreateRequest("a")).ok());
  const std::string uid = Get("projects/p/jobs/a")->uid();
  access_.CallAs(auth::SpiffeId::Executor("test.capstan.dev", "local"));
  grpc::ClientContext context;
  auto stream = sessions_->Connect(&context);
  SessionUp up;
  up.mutable_hello()->set_cluster("local");
  up.mutable_hello()->set_incarnation(1);
  ASSERT_TRUE(stream->Write(up));
  up.mutable_observations()->set_journal_sequence(1);
  up.mutable_observations()->set_sync_complete(true);
  auto& node = *up.mutable_observations()->add_nodes();
  node.set_node("n");
  node.mutable_allocatable()->set_cpu_millis(1000);
  node.mutable_allocatable()->set_memory_bytes(1 << 30);
  ASSERT_TRUE(stream->Write(up));
  int64_t sequence = 1;
  auto await = [&](DesiredTask::Phase phase) {
    SessionDown down;
    while (stream->Read(&down)) {
      if (down.desired().tasks_size() > 0 && down.desired().tasks(0).phase() == phase) return true;
    }
    return false;
  };
  auto report = [&](TaskObservation::State state) {
    SessionUp message;
    message.mutable_observations()->set_journal_sequence(++sequence);
    auto& task = *message.mutable_observations()->add_tasks();
    task.mutable_key()->set_job_uid(uid);
    task.mutable_key()->set_generation(1);
    task.mutable_key()->set_group("w");
    task.set_node("n");
    task.set_state(state);
    if (state == TaskObservation::STATE_ENDED) {
      task.mutable_end()->set_cause(capstan::type::v1::TaskEnd::CAUSE_EXITED);
    }
    return stream->Write(message);
  };
  ASSERT_TRUE(await(DesiredTask::PHASE_PREPARE));
  ASSERT_TRUE(report(TaskObservation::STATE_PREPARED));
  ASSERT_TRUE(await(DesiredTask::PHASE_START));

  access_.CallAs(auth::SpiffeId::Person("test.capstan.dev", "1000"));
  grpc::ClientContext watch_context;
  pb::WatchJobsRequest watch;
  watch.set_parent("projects/p");
  auto reader = jobs_->WatchJobs(&watch_context, watch);
  pb::WatchJobsResponse response;
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_EQ(response.job().state(), pb::Job::STATE_RUNNING);
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_TRUE(response.synced());
  pb::GetQueueRequest get_queue;
  get_queue.set_name("queues/default");
  const auto used = Call(queues_, &pb::QueueService::Stub::GetQueue, get_queue);
  ASSERT_TRUE(used.ok()) << used.status();
  ASSERT_EQ(used->usage_size(), 2);
  EXPECT_EQ(used->usage(0).resource(), "cpu");
  EXPECT_EQ(used->usage(0).in_use(), 500);
  EXPECT_LT(used->usage(0).average(), 500);
  EXPECT_EQ(Call(queues_, &pb::QueueService::Stub::ListQueues, pb::ListQueuesRequest())
                ->queues(0)
                .usage_size(),
            2);
  const std::string token = response.resume_token();
  EXPECT_FALSE(token.empty());
  ASSERT_TRUE(report(TaskObservation::STATE_ENDED));
  do {
    ASSERT_TRUE(reader->Read(&response));
  } while (response.job().state() != pb::Job::STATE_SUCCEEDED);
  watch_context.TryCancel();

  // Resumed, only what has changed since comes.
  ASSERT_TRUE(Create(CreateRequest("b")).ok());
  grpc::ClientContext resumed_context;
  watch.set_resume_token(token);
  auto resumed = jobs_->WatchJobs(&resumed_context, watch);
  std::set<std::string> names;
  while (resumed->Read(&response) && !response.synced()) names.insert(response.job().name());
  EXPECT_EQ(names, (std::set<std::string>{"projects/p/jobs/a", "projects/p/jobs/b"}));
  resumed_context.TryCancel();

  pb::CordonNodeRequest cordon;
  cordon.set_name("clusters/local/nodes/n");
  const auto cordoned = Call(nodes_, &pb::NodeService::Stub::CordonNode, cordon);
  ASSERT_TRUE(cordoned.ok()) << cordoned.status();
  EXPECT_EQ(cordoned->cordons(0).owner(), "spiffe://test.capstan.dev/person/1000");
  EXPECT_EQ(audit_.acts.back(), "/capstan.scheduler.v1.NodeService/CordonNode");
  pb::ListNodesRequest list;
  list.set_parent("clusters/-");
  EXPECT_EQ(Call(nodes_, &pb::NodeService::Stub::ListNodes, list)->nodes_size(), 1);

  // Draining ends the executor's stream.
  server_->Drain(absl::Seconds(5));
  SessionDown down;
  while (stream->Read(&down)) {
  }
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(ServerTest, AWatcherGetsEachOfManyJobsOnceAndThenWhatChanges) {
  constexpr int kJobs = 600;
  for (int i = 0; i < kJobs; ++i) {
    ASSERT_TRUE(Create(CreateRequest(absl::StrCat("j", i))).ok());
  }
  pb::WatchJobsRequest watch;
  watch.set_parent("projects/p");
  grpc::ClientContext context;
  auto reader = jobs_->WatchJobs(&context, watch);
  pb::WatchJobsResponse response;
  // What is new while it reads comes too, once.
  std::map<std::string, int> told;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(reader->Read(&response));
    ++told[response.job().name()];
  }
  ASSERT_TRUE(Create(CreateRequest("new")).ok());
  while (reader->Read(&response) && !response.synced()) ++told[response.job().name()];
  ASSERT_TRUE(response.synced());
  if (told.count("projects/p/jobs/new") == 0) {
    ASSERT_TRUE(reader->Read(&response));
    ++told[response.job().name()];
  }
  EXPECT_EQ(told.size(), kJobs + 1u);
  for (const auto& [name, times] : told) EXPECT_EQ(times, 1) << name;
  ASSERT_TRUE(Create(CreateRequest("newer")).ok());
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_EQ(response.job().name(), "projects/p/jobs/newer");
  const std::string token = response.resume_token();
  EXPECT_FALSE(token.empty());
  context.TryCancel();

  grpc::ClientContext resumed_context;
  watch.set_resume_token(token);
  auto resumed = jobs_->WatchJobs(&resumed_context, watch);
  ASSERT_TRUE(resumed->Read(&response));
  EXPECT_TRUE(response.synced()) << response.job().name();
  ASSERT_TRUE(Create(CreateRequest("newest")).ok());
  ASSERT_TRUE(resumed->Read(&response));
  EXPECT_EQ(response.job().name(), "projects/p/jobs/newest");
  resumed_context.TryCancel();

  grpc::ClientContext one_context;
  pb::WatchJobsRequest one;
  one.set_parent("projects/p");
  one.set_job("projects/p/jobs/j7");
  auto only = jobs_->WatchJobs(&one_context, one);
  ASSERT_TRUE(only->Read(&response));
  EXPECT_EQ(response.job().name(), "projects/p/jobs/j7");
  ASSERT_TRUE(only->Read(&response));
  EXPECT_TRUE(response.synced());
  one_context.TryCancel();
}

// More changes than are kept of it (watch_backlog.h) while it does not read.
TEST_F(ServerTest, AWatcherThatReadsLateIsToldOfAllThatChanged) {
  constexpr int kElements = 1000;
  pb::CreateJobRequest request = CreateRequest("a");
  request.mutable_job()->mutable_spec()->mutable_array()->set_size(kElements);
  std::set<std::string> arrays;
  for (const char* id : {"a", "b"}) {
    request.set_job_id(id);
    const auto made = Create(request);
    ASSERT_TRUE(made.ok()) << made.status();
    arrays.insert(made->name());
  }
  pb::WatchJobsRequest watch;
  watch.set_parent("projects/p");
  grpc::ClientContext context;
  auto reader = jobs_->WatchJobs(&context, watch);
  pb::WatchJobsResponse response;
  while (reader->Read(&response) && !response.synced()) {
  }
  ASSERT_TRUE(response.synced());
  for (const std::string& name : arrays) {
    pb::CancelJobRequest cancel;
    cancel.set_name(name);
    const auto cancelled = Call(jobs_, &pb::JobService::Stub::CancelJob, cancel);
    ASSERT_TRUE(cancelled.ok()) << cancelled.status();
  }
  std::set<std::string> told;
  while (told.size() < 2 * kElements && reader->Read(&response)) {
    const bool is_element = response.job().has_element();
    if (is_element && response.job().state() == pb::Job::STATE_CANCELLED) {
      told.insert(response.job().name());
    }
  }
  EXPECT_EQ(told.size(), 2u * kElements);
  context.TryCancel();
}

TEST_F(ServerTest, TellsAWatcherWhatIsUnmetWholeAndAnewAsItChanges) {
  grpc::ClientContext bare_context;
  pb::WatchDemandRequest watch;
  watch.set_parent("local");
  pb::WatchDemandResponse response;
  auto refused = nodes_->WatchDemand(&bare_context, watch);
  EXPECT_FALSE(refused->Read(&response));
  EXPECT_EQ(status::GetFieldViolations(rpc::FromGrpcStatus(refused->Finish()))[0].field, "parent");

  grpc::ClientContext context;
  watch.set_parent("clusters/-");
  auto reader = nodes_->WatchDemand(&context, watch);
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_EQ(response.demand().classes_size(), 0) << "at once, whether or not there is any";
  EXPECT_TRUE(response.demand().has_observe_time());
  pb::CreateJobRequest request = CreateRequest("a");
  request.mutable_job()->mutable_spec()->mutable_task_groups(0)->set_replicas(3);
  request.mutable_job()->mutable_spec()->add_clusters("east");
  ASSERT_TRUE(Create(request).ok());
  ASSERT_TRUE(reader->Read(&response));
  ASSERT_EQ(response.demand().classes_size(), 1);
  EXPECT_EQ(response.demand().classes(0).tasks(), 3);
  EXPECT_EQ(response.demand().classes(0).largest_job(), "projects/p/jobs/a");
  EXPECT_EQ(response.demand().classes(0).reasons(0).reason(), "INSUFFICIENT_RESOURCES");
  EXPECT_GT(response.demand().revision(), 0);
  EXPECT_TRUE(absl::StrContains(metrics_.RenderText(),
                                "capstan_scheduler_unmet_tasks{reason=\"INSUFFICIENT_RESOURCES\"} "
                                "3"))
      << metrics_.RenderText();

  // Of other Clusters it is none of it.
  grpc::ClientContext other_context;
  watch.set_parent("clusters/west");
  auto other = nodes_->WatchDemand(&other_context, watch);
  pb::WatchDemandResponse elsewhere;
  ASSERT_TRUE(other->Read(&elsewhere));
  EXPECT_EQ(elsewhere.demand().classes_size(), 0);
  other_context.TryCancel();

  pb::CancelJobRequest cancel;
  cancel.set_name("projects/p/jobs/a");
  ASSERT_TRUE(Call(jobs_, &pb::JobService::Stub::CancelJob, cancel).ok());
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_EQ(response.demand().classes_size(), 0);
  server_->Drain(absl::Seconds(5));
  EXPECT_FALSE(reader->Read(&response));
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(ServerTest, PlacesByLabelsAndTaints) {
  NodeObservation node = NodeOf("n", 1000);
  (*node.mutable_labels())["gpu"] = "a100";
  node.add_taints()->set_key("team");
  node.mutable_taints(0)->set_value("vision");
  grpc::ClientContext context;
  const auto stream = Connect({node}, &context);
  pb::GetNodeRequest get_node;
  get_node.set_name("clusters/local/nodes/n");
  const auto shown = Call(nodes_, &pb::NodeService::Stub::GetNode, get_node);
  ASSERT_TRUE(shown.ok()) << shown.status();
  ASSERT_EQ(shown->taints_size(), 1);
  EXPECT_EQ(shown->taints(0).value(), "vision");

  pb::CreateJobRequest request = CreateRequest("waits");
  pb::JobSpec& spec = *request.mutable_job()->mutable_spec();
  auto& requirement = *spec.add_node_requirements();
  requirement.set_key("gpu");
  requirement.set_operator_(pb::NodeRequirement::OPERATOR_IN);
  const auto violations = status::GetFieldViolations(Create(request).status());
  ASSERT_EQ(violations.size(), 1u);
  EXPECT_EQ(violations[0].field, "job.spec.node_requirements[0].values");
  requirement.add_values("h100");
  ASSERT_TRUE(Create(request).ok());
  pb::ExplainJobRequest explain;
  explain.set_name("projects/p/jobs/waits");
  auto why = Call(jobs_, &pb::JobService::Stub::ExplainJob, explain);
  ASSERT_TRUE(why.ok()) << why.status();
  ASSERT_GE(why->constraints_size(), 1) << why->summary();
  EXPECT_EQ(why->constraints(0).type(), "node_requirements");
  EXPECT_EQ(why->constraints(0).message(), "1 of 1 node does not meet gpu in [h100]");
  requirement.set_values(0, "a100");
  request.set_job_id("tainted");
  ASSERT_TRUE(Create(request).ok());
  explain.set_name("projects/p/jobs/tainted");
  why = Call(jobs_, &pb::JobService::Stub::ExplainJob, explain);
  ASSERT_TRUE(why.ok()) << why.status();
  ASSERT_GE(why->constraints_size(), 1) << why->summary();
  EXPECT_EQ(why->constraints(0).message(),
            "1 of 1 node has the taint team=vision, which the Job does not tolerate");
  request.set_job_id("runs");
  spec.add_tolerations()->set_any_value(true);
  ASSERT_TRUE(Create(request).ok());
  EXPECT_EQ(Get("projects/p/jobs/runs")->state(), pb::Job::STATE_PREPARING);
  context.TryCancel();
}

TEST_F(ServerTest, KeepsOrdersOfCapacity) {
  pb::CreateJobRequest gang = CreateRequest("gang");
  ASSERT_TRUE(Create(gang).ok());
  grpc::ClientContext context;
  const auto stream = Connect({}, &context);

  using Stub = pb::CapacityOrderService::Stub;
  const auto orders = pb::CapacityOrderService::NewStub(channel_);
  pb::CreateCapacityOrderRequest create;
  create.set_order_id("more");
  create.set_request_id(kRequestId);
  pb::CapacityOrder& order = *create.mutable_order();
  order.set_cluster("clusters/local");
  order.set_nodes(2);
  order.set_job("projects/p/jobs/gang");
  *order.mutable_expire_time() = ToProto(clock_.Read().wall + absl::Hours(1));
  // What a caller cannot set.
  order.set_creator("somebody");
  order.set_nodes_come(7);
  const auto made = Call(orders, &Stub::CreateCapacityOrder, create);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->name(), "capacityOrders/more");
  EXPECT_EQ(made->creator(), "spiffe://test.capstan.dev/person/1000");
  EXPECT_EQ(made->nodes_come(), 0);
  EXPECT_EQ(made->state(), pb::CapacityOrder::STATE_NOMINATED);
  EXPECT_EQ(made->nominee(), "projects/p/jobs/gang");
  EXPECT_EQ(audit_.acts.back(), "/capstan.scheduler.v1.CapacityOrderService/CreateCapacityOrder");
  EXPECT_EQ(Call(orders, &Stub::CreateCapacityOrder, create)->name(), made->name());
  EXPECT_EQ(Get("projects/p/jobs/gang")->reason(), "ORDERED");
  pb::GetCapacityOrderRequest get;
  get.set_name("capacityOrders/more");
  EXPECT_EQ(Call(orders, &Stub::GetCapacityOrder, get)->nodes(), 2);
  create.set_order_id("another");
  create.clear_request_id();
  ASSERT_TRUE(Call(orders, &Stub::CreateCapacityOrder, create).ok());
  pb::ListCapacityOrdersRequest list;
  list.set_page_size(1);
  auto page = Call(orders, &Stub::ListCapacityOrders, list);
  ASSERT_TRUE(page.ok());
  EXPECT_EQ(page->orders(0).name(), "capacityOrders/another");
  list.set_page_token(page->next_page_token());
  page = Call(orders, &Stub::ListCapacityOrders, list);
  EXPECT_EQ(page->orders(0).name(), "capacityOrders/more");
  EXPECT_EQ(page->next_page_token(), "");
  pb::DeleteCapacityOrderRequest remove;
  remove.set_name("capacityOrders/more");
  EXPECT_TRUE(Call(orders, &Stub::DeleteCapacityOrder, remove).ok());
  EXPECT_EQ(audit_.acts.back(), "/capstan.scheduler.v1.CapacityOrderService/DeleteCapacityOrder");
  EXPECT_EQ(Call(orders, &Stub::GetCapacityOrder, get).status().code(),
            absl::StatusCode::kNotFound);
  context.TryCancel();
}

// Jobs of other Projects are counted in an explanation, and named nowhere in it.
TEST_F(ServerTest, ExplainsWithoutNamingJobsOfOtherProjects) {
  pb::CreateJobRequest theirs = CreateRequest("theirs");
  theirs.set_parent("projects/other");
  ASSERT_TRUE(Create(theirs).ok());
  grpc::ClientContext context;
  const auto stream = Connect({NodeOf("n0", 800)}, &context);
  for (int i = 0; i < 100'000; ++i) {
    if (Get("projects/other/jobs/theirs")->state() == pb::Job::STATE_PREPARING) break;
  }
  ASSERT_EQ(Get("projects/other/jobs/theirs")->state(), pb::Job::STATE_PREPARING);
  pb::CreateJobRequest mine = CreateRequest("mine");
  mine.mutable_job()->mutable_spec()->set_priority(5);
  ASSERT_TRUE(Create(mine).ok());
  pb::ExplainJobRequest explain;
  explain.set_name("projects/p/jobs/mine");
  const auto explained = Call(jobs_, &pb::JobService::Stub::ExplainJob, explain);
  ASSERT_TRUE(explained.ok()) << explained.status();
  using Counterfactual = pb::ExplainJobResponse::Counterfactual;
  std::map<Counterfactual::Kind, Counterfactual> by_kind;
  for (const Counterfactual& one : explained->counterfactuals()) by_kind[one.kind()] = one;
  EXPECT_EQ(by_kind[Counterfactual::KIND_FREES].message(),
            "fits if clusters/local/nodes/n0 frees 0.2 cpu");
  const Counterfactual& preempts = by_kind[Counterfactual::KIND_PREEMPTS];
  EXPECT_EQ(preempts.job_count(), 1);
  EXPECT_TRUE(preempts.jobs().empty());
  EXPECT_NE(preempts.message().find("1 Job of other Projects"), std::string::npos)
      << preempts.message();
  EXPECT_EQ(explained->DebugString().find("theirs"), std::string::npos);
  context.TryCancel();
}

TEST_F(ServerTest, WhatIsReadyTakesCallsAtOnce) {
  while (!server_->Ready().ok()) {
  }
  grpc::ClientContext context;
  pb::Job job;
  const grpc::Status status = jobs_->CreateJob(&context, CreateRequest("a"), &job);
  EXPECT_TRUE(status.ok()) << status.error_message();
}

TEST_F(ServerTest, AnActThatCannotBeAuditedDoesNotHappen) {
  // It leads from here on, and has made its first Queue.
  ASSERT_TRUE(Create(CreateRequest("a")).ok());
  audit_.status = absl::UnavailableError("disk full");
  pb::CreateQueueRequest request;
  request.set_queue_id("batch");
  EXPECT_FALSE(Call(queues_, &pb::QueueService::Stub::CreateQueue, request).ok());
  audit_.status = absl::OkStatus();
  EXPECT_EQ(
      Call(queues_, &pb::QueueService::Stub::ListQueues, pb::ListQueuesRequest())->queues_size(),
      1);
  EXPECT_TRUE(Call(queues_, &pb::QueueService::Stub::CreateQueue, request).ok());
  pb::GetQueueRequest get;
  get.set_name("queues/batch");
  EXPECT_EQ(Call(queues_, &pb::QueueService::Stub::GetQueue, get)->weight(), 100);
  pb::UpdateQueueRequest hold;
  hold.mutable_queue()->set_name("queues/batch");
  hold.mutable_queue()->set_hold(true);
  EXPECT_EQ(Call(queues_, &pb::QueueService::Stub::UpdateQueue, hold).status().code(),
            absl::StatusCode::kInvalidArgument)
      << "without a mask";
  hold.mutable_update_mask()->add_paths("hold");
  const auto held = Call(queues_, &pb::QueueService::Stub::UpdateQueue, hold);
  ASSERT_TRUE(held.ok()) << held.status();
  EXPECT_TRUE(held->hold());
  EXPECT_EQ(audit_.acts.back(), "/capstan.scheduler.v1.QueueService/UpdateQueue");
  audit_.status = absl::UnavailableError("disk full");
  hold.mutable_queue()->set_hold(false);
  EXPECT_FALSE(Call(queues_, &pb::QueueService::Stub::UpdateQueue, hold).ok());
  audit_.status = absl::OkStatus();
  EXPECT_TRUE(Call(queues_, &pb::QueueService::Stub::GetQueue, get)->hold());
  EXPECT_TRUE(
      Call(nodes_, &pb::NodeService::Stub::ConfirmSilence, pb::ConfirmSilenceRequest()).ok());
}

}  // namespace
}  // namespace capstan::scheduler
