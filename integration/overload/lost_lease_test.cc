// A scheduler that is stopped for longer than its lease, again and again, while Jobs are created
// without pause: it goes on in the same process, leads again, and has every Job that it has
// acknowledged.
#include <signal.h>

#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/notification.h"
#include "grpcpp/client_context.h"
#include "gtest/gtest.h"
#include "integration/access/raw_call.h"
#include "integration/monitoring/http_request.h"
#include "integration/overload/call_storm.h"
#include "integration/platform/test_platform.h"
#include "libs/rpc/call.h"
#include "libs/rpc/credentials.h"
#include "libs/rpc/identity.h"
#include "libs/rpc/status_conversion.h"
#include "libs/status/error.h"
#include "libs/time/system_clock.h"
#include "proto/capstan/scheduler/v1/job_service.grpc.pb.h"
#include "tools/capstan/cli/platform.h"

namespace capstan::integration {
namespace {

using scheduler::v1::JobService;

constexpr int kTimes = 3;
constexpr int kMaxTries = 5;
constexpr int kChannels = 4;
constexpr int kOutstanding = 1000;
// Leases live for 3 s (services/scheduler/engine.h).
constexpr absl::Duration kStopped = absl::Seconds(4);
constexpr absl::Duration kBetween = absl::Seconds(2);

double Terms(const std::string& metrics_address) {
  constexpr absl::string_view kName = "capstan_scheduler_leadership_terms_total";
  const std::string page = HttpGet(absl::StrCat("http://", metrics_address, "/metrics")).body;
  for (const absl::string_view line : absl::StrSplit(page, '\n')) {
    double value = 0;
    if (absl::StartsWith(line, kName) &&
        absl::SimpleAtod(line.substr(line.rfind(' ') + 1), &value)) {
      return value;
    }
  }
  return 0;
}

// The same person's cancelled calls may be under way for a moment more: comes again when told to.
int64_t CountJobs(const std::shared_ptr<grpc::Channel>& channel) {
  const auto jobs = JobService::NewStub(channel);
  const absl::Notification never;
  int64_t count = 0;
  int tries = 1;
  scheduler::v1::ListJobsRequest request;
  request.set_parent("projects/default");
  request.set_page_size(1000);
  while (true) {
    grpc::ClientContext context;
    rpc::SetDeadline(context, absl::Seconds(30));
    scheduler::v1::ListJobsResponse response;
    const grpc::Status status = jobs->ListJobs(&context, request, &response);
    if (status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED && tries < kMaxTries) {
      ++tries;
      const auto delay = status::GetRetryDelay(rpc::FromGrpcStatus(status));
      EXPECT_TRUE(delay.has_value()) << status.error_message();
      never.WaitForNotificationWithTimeout(delay.value_or(absl::ZeroDuration()));
      continue;
    }
    EXPECT_TRUE(status.ok()) << status.error_message();
    if (!status.ok()) return count;
    count += response.jobs_size();
    if (response.next_page_token().empty()) return count;
    request.set_page_token(response.next_page_token());
  }
}

TEST(LostLeaseTest, LeadsAgainAndHasWhatItAcknowledged) {
  if (TestPlatform::Unable().has_value()) GTEST_SKIP() << *TestPlatform::Unable();
  TestPlatform platform;
  platform.Up();
  ASSERT_TRUE(platform.AwaitReady());
  platform.MustCapstan({"access", "whoami"});
  const SystemClock clock;
  const auto identity = rpc::Identity::Load(platform.data_dir() + "/person").value();
  const cli::v1::Endpoints endpoints = cli::ReadEndpoints(platform.data_dir()).value();
  const auto& endpoint = endpoints.parts().at("scheduler");
  const auto dial = [&] {
    return DialAlone(endpoint.address(),
                     rpc::MutualTlsChannelCredentials(identity, &clock, "/svc/scheduler"));
  };

  std::vector<std::shared_ptr<grpc::Channel>> channels;
  for (int i = 0; i < kChannels; ++i) channels.push_back(dial());
  CallStorm storm(channels, "/capstan.scheduler.v1.JobService/CreateJob", JobWithoutRoom(),
                  kOutstanding, &clock);
  const auto before = platform.Part("scheduler");
  ASSERT_TRUE(before.has_value());
  const absl::Notification never;
  for (int i = 0; i < kTimes; ++i) {
    never.WaitForNotificationWithTimeout(kBetween);
    platform.Signal("scheduler", SIGSTOP);
    never.WaitForNotificationWithTimeout(kStopped);
    platform.Signal("scheduler", SIGCONT);
    EXPECT_TRUE(platform.Await([&] { return Terms(endpoint.metrics_address()) >= i + 2; }));
    EXPECT_TRUE(platform.AwaitReady());
  }
  const StormEnd end = storm.Stop();
  std::printf("%s\n", end.Describe().c_str());
  const auto after = platform.Part("scheduler");
  ASSERT_TRUE(after.has_value());
  EXPECT_EQ(after->pid, before->pid);
  for (const auto& [code, count] : end.ends) {
    EXPECT_TRUE(code == grpc::StatusCode::OK || code == grpc::StatusCode::RESOURCE_EXHAUSTED ||
                code == grpc::StatusCode::UNAVAILABLE ||
                code == grpc::StatusCode::DEADLINE_EXCEEDED)
        << end.Describe();
  }
  ASSERT_GT(end.ends.count(grpc::StatusCode::OK), 0u);
  // Of some the answer was lost.
  EXPECT_GE(CountJobs(dial()), end.ends.at(grpc::StatusCode::OK));
}

}  // namespace
}  // namespace capstan::integration
