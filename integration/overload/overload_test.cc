// More than a platform is made for, of each kind, against each of its services while a gang runs:
// calls without pause, connections that say nothing, readers that do not read, watches by the
// hundred. What must hold meanwhile and afterwards: overload_fixture.h. Further kinds:
// large_requests_test.cc, writes_test.cc, sessions_test.cc, reports_test.cc.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "grpcpp/client_context.h"
#include "gtest/gtest.h"
#include "integration/overload/call_storm.h"
#include "integration/overload/overload_fixture.h"
#include "integration/platform/test_platform.h"
#include "libs/rpc/admission.h"
#include "libs/rpc/status_conversion.h"
#include "libs/safe_path/safe_path.h"
#include "libs/status/error.h"
#include "proto/capstan/scheduler/v1/job_service.grpc.pb.h"
#include "proto/capstan/telemetry/v1/stream.grpc.pb.h"

namespace capstan::integration {
namespace {

using scheduler::v1::Job;
using scheduler::v1::JobService;

// As many as telemetry takes (services/telemetry/README.md).
constexpr int kMaxLogReaders = 2000;

TEST_F(OverloadTest, CallsWithoutPauseAtEachService) {
  struct Target {
    const char* part;
    const char* method;
  };
  constexpr Target kTargets[] = {
      {"cluster_manager", "/capstan.clustermanager.v1.ClusterService/ListClusters"},
      {"credentials", "/capstan.credentials.v1.AccessService/GetCallerAccess"},
      {"data_loader", "/capstan.dataloader.v1.DatasetService/ListDatasets"},
      {"scheduler", "/capstan.scheduler.v1.JobService/ListJobs"},
      {"telemetry", "/capstan.telemetry.v1.ArchiveService/ListArchivedJobs"},
  };
  scheduler::v1::ListJobsRequest list;
  list.set_parent("projects/default");
  // `parent` has the same number in all of them, and others leave it out.
  const auto request = [same = BufferOf(list.SerializeAsString())](int64_t, size_t) {
    return same;
  };
  for (const auto& [part, method] : kTargets) {
    const StormEnd end =
        Storm(part, part, DialAll(part), StormCall{.path = method, .request = request});
    // Answered, or told when to come again: one person may not have that many calls under way.
    ExpectEnds(end, {grpc::StatusCode::OK, grpc::StatusCode::RESOURCE_EXHAUSTED});
  }
}

TEST_F(OverloadTest, ConnectionsThatSayNothing) {
  std::vector<UniqueFd> idle;
  std::vector<std::string> addresses;
  for (const auto& [part, endpoint] : endpoints_->parts()) {
    if (!endpoint.address().empty()) addresses.push_back(endpoint.address());
  }
  int connected = 0;
  for (int i = 0; i < kConnections; ++i) {
    const std::string& address = addresses[static_cast<size_t>(i) % addresses.size()];
    sockaddr_in where = {};
    where.sin_family = AF_INET;
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int port = 0;
    ASSERT_TRUE(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port));
    where.sin_port = htons(static_cast<uint16_t>(port));
    UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_TRUE(fd.valid()) << i;
    connected += connect(fd.get(), reinterpret_cast<sockaddr*>(&where), sizeof(where)) == 0 ? 1 : 0;
    idle.push_back(std::move(fd));
  }
  EXPECT_EQ(connected, kConnections);
  // And some that have shown who they are.
  std::vector<std::shared_ptr<grpc::Channel>> known;
  for (int i = 0; i < kConnections / 10; ++i) {
    known.push_back(Dial(i % 2 == 0 ? "scheduler" : "credentials"));
    known.back()->GetState(/*try_to_connect=*/true);
  }
  for (const auto& channel : known) {
    EXPECT_TRUE(Await(channel));
  }
  // Newcomers get in all the same.
  EXPECT_EQ(platform_->Capstan({"job", "list"}).exit_code, 0);
  Wait(kHeld);
  EXPECT_EQ(platform_->Capstan({"node", "list"}).exit_code, 0);
  StormIsOver();
}

// Watches by the hundred, all begun at once, which then read nothing while much changes.
TEST_F(OverloadTest, WatchesThatAreNotRead) {
  struct Watch {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReader<scheduler::v1::WatchJobsResponse>> reader;
  };
  std::vector<std::unique_ptr<JobService::Stub>> stubs;
  for (int i = 0; i < kChannels; ++i) stubs.push_back(JobService::NewStub(Dial("scheduler")));
  std::vector<std::unique_ptr<Watch>> watches;
  scheduler::v1::WatchJobsRequest request;
  request.set_parent("projects/default");
  for (int i = 0; i < kWatches; ++i) {
    auto watch = std::make_unique<Watch>();
    watch->reader =
        stubs[static_cast<size_t>(i) % stubs.size()]->WatchJobs(&watch->context, request);
    watches.push_back(std::move(watch));
  }
  const std::string yaml =
      "spec:\n  task_groups:\n    - name: w\n      replicas: 1\n      argv: [/bin/true]\n"
      "      env: {NOISE: " +
      std::string(4096, 'x') + "}\n      resources: {cpu: 10m, memory: 32Mi}\n";
  for (int i = 0; i < 20; ++i) {
    const std::string name = absl::StrCat("noise-", i);
    EXPECT_EQ(platform_->SubmitText(name, absl::StrCat("job_id: ", name, "\n", yaml)).exit_code, 0);
  }
  Wait(kHeld);
  StormIsOver();
  // Each was answered, or told to come later, and may go.
  int told = 0;
  int refused = 0;
  for (auto& watch : watches) {
    scheduler::v1::WatchJobsResponse response;
    if (watch->reader->Read(&response)) {
      ++told;
      watch->context.TryCancel();
      continue;
    }
    const absl::Status status = rpc::FromGrpcStatus(watch->reader->Finish());
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_TRUE(status::GetRetryDelay(status).has_value()) << status;
    ++refused;
  }
  printf("watches: %d told, %d refused\n", told, refused);
  EXPECT_EQ(told, std::min<int>(kWatches, rpc::Admission::Options().streams.each));
  EXPECT_EQ(told + refused, kWatches);
}

// Readers of a long log by the hundred, which read its beginning and then nothing.
TEST_F(OverloadTest, LogsThatAreNotRead) {
  ASSERT_EQ(
      platform_
          ->SubmitText("loud",
                       "job_id: loud\nspec:\n  task_groups:\n    - name: w\n      replicas: 1\n"
                       "      argv: [/bin/sh, -c, \"yes a line of a log | head -c 8000000\"]\n"
                       "      resources: {cpu: 10m, memory: 32Mi}\n")
          .exit_code,
      0);
  ASSERT_TRUE(
      platform_->Await([] { return platform_->Get("loud").state() == Job::STATE_SUCCEEDED; }));
  struct LogReader {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReader<telemetry::v1::ReadRecordsResponse>> reader;
  };
  std::vector<std::unique_ptr<telemetry::v1::StreamService::Stub>> stubs;
  for (int i = 0; i < kChannels; ++i) {
    stubs.push_back(telemetry::v1::StreamService::NewStub(Dial("telemetry")));
  }
  telemetry::v1::ReadRecordsRequest request;
  request.set_stream("projects/default/jobs/loud/streams/log");
  // Else one whose connection takes all that there is makes room for another.
  request.set_follow(true);
  std::vector<std::unique_ptr<LogReader>> readers;
  for (int i = 0; i < kWatches; ++i) {
    LogReader& reader = *readers.emplace_back(std::make_unique<LogReader>());
    reader.reader =
        stubs[static_cast<size_t>(i) % stubs.size()]->ReadRecords(&reader.context, request);
  }
  Wait(kHeld);
  StormIsOver();
  int told = 0;
  for (const auto& reader : readers) {
    telemetry::v1::ReadRecordsResponse response;
    if (reader->reader->Read(&response)) {
      ++told;
      reader->context.TryCancel();
      reader->reader->Finish();
      continue;
    }
    const absl::Status status = rpc::FromGrpcStatus(reader->reader->Finish());
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_TRUE(status::GetRetryDelay(status).has_value()) << status;
  }
  printf("readers: %d of %d told\n", told, kWatches);
  EXPECT_EQ(told, std::min(kWatches, kMaxLogReaders));
}

// New work without pause, of which nothing has room. The leader leads on.
TEST_F(OverloadTest, SubmissionsWithoutPause) {
  const StormEnd end = Storm(
      "new Jobs", "scheduler", DialAll("scheduler"),
      StormCall{.path = "/capstan.scheduler.v1.JobService/CreateJob",
                .request = [same = BufferOf(JobWithoutRoom())](int64_t, size_t) { return same; }},
      kSubmissions);
  ExpectEnds(end, {grpc::StatusCode::OK, grpc::StatusCode::RESOURCE_EXHAUSTED});
  ASSERT_GT(end.ends.count(grpc::StatusCode::OK), 0u);
  // The gang is one more.
  EXPECT_LT(end.ends.at(grpc::StatusCode::OK), kMaxJobs);
}

}  // namespace
}  // namespace capstan::integration
