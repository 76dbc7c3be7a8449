// Simulations as a client of the whole service sees them: one at a time, and in batches.
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "grpcpp/client_context.h"
#include "gtest/gtest.h"
#include "libs/metrics/registry.h"
#include "libs/rpc/status_conversion.h"
#include "libs/status/error.h"
#include "libs/time/proto_time.h"
#include "proto/capstan/scheduler/v1/job_service.grpc.pb.h"
#include "proto/capstan/scheduler/v1/simulation_service.grpc.pb.h"
#include "services/scheduler/server.h"
#include "services/scheduler/server_test_fixture.h"

namespace capstan::scheduler {
namespace {

namespace pb = ::capstan::scheduler::v1;

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

}  // namespace
}  // namespace capstan::scheduler
