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
#include "gtest/gtest.h"
#include "libs/rpc/status_conversion.h"
#include "libs/status/error.h"
#include "libs/time/proto_time.h"
#include "proto/capstan/scheduler/v1/capacity_order.grpc.pb.h"
#include "proto/capstan/scheduler/v1/executor_session.grpc.pb.h"
#include "proto/capstan/scheduler/v1/job_service.grpc.pb.h"
#include "proto/capstan/scheduler/v1/node.grpc.pb.h"
#include "proto/capstan/scheduler/v1/queue.grpc.pb.h"
#include "services/scheduler/server_test_fixture.h"

namespace capstan::scheduler {
namespace {

namespace pb = ::capstan::scheduler::v1;
using capstan::type::v1::DesiredTask;
using capstan::type::v1::NodeObservation;
using capstan::type::v1::SessionDown;
using capstan::type::v1::SessionUp;
using capstan::type::v1::TaskObservation;

constexpr char kRequestId[] = "0b9d2a34-5c6d-4e7f-8a9b-0c1d2e3f4a5b";

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
