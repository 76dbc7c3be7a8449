// More than a platform is made for, of each kind, against each of its services while a gang runs:
// calls without pause, connections that say nothing, readers that do not read, messages and headers
// that are too large, watches by the hundred. Meanwhile health is told, leases are renewed, and an
// admin is answered; memory stays within the bound below; afterwards all is as before within 5 s.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/notification.h"
#include "grpcpp/client_context.h"
#include "grpcpp/create_channel.h"
#include "gtest/gtest.h"
#include "integration/access/raw_call.h"
#include "integration/monitoring/http_request.h"
#include "integration/overload/call_storm.h"
#include "integration/platform/command.h"
#include "integration/platform/test_platform.h"
#include "libs/rpc/admission.h"
#include "libs/rpc/call.h"
#include "libs/rpc/channel_settings.h"
#include "libs/rpc/credentials.h"
#include "libs/rpc/identity.h"
#include "libs/rpc/status_conversion.h"
#include "libs/safe_path/safe_path.h"
#include "libs/status/error.h"
#include "libs/time/system_clock.h"
#include "proto/capstan/scheduler/v1/job_service.grpc.pb.h"
#include "proto/capstan/telemetry/v1/stream.grpc.pb.h"
#include "services/credentials/testing/stored_authority.h"
#include "tools/capstan/cli/platform.h"

// Scaled up for ./dev soak overload.
#ifndef CAPSTAN_OVERLOAD_SECONDS
#define CAPSTAN_OVERLOAD_SECONDS 3
#define CAPSTAN_OVERLOAD_CONNECTIONS 2000
#define CAPSTAN_OVERLOAD_WATCHES 500
#define CAPSTAN_OVERLOAD_MAX_JOBS 1000000
#endif

namespace capstan::integration {
namespace {

using scheduler::v1::Job;
using scheduler::v1::JobService;

constexpr absl::Duration kStorm = absl::Seconds(CAPSTAN_OVERLOAD_SECONDS);
constexpr int kConnections = CAPSTAN_OVERLOAD_CONNECTIONS;
constexpr int kWatches = CAPSTAN_OVERLOAD_WATCHES;
// The default, or fewer: Jobs that were acknowledged are kept, and minutes of new ones would else be
// bounded by how fast the machine is.
constexpr int kMaxJobs = CAPSTAN_OVERLOAD_MAX_JOBS;
constexpr int kRanks = 2;
// Nobody's on a Debian machine.
constexpr char kResearcher[] = "4001";
// Calls under way at once: as many as four connections may carry.
constexpr int kChannels = 4;
constexpr int kOutstanding = 4000;
// As many as telemetry takes (services/telemetry/README.md).
constexpr int kMaxLogReaders = 2000;
// What each part may use, at any time.
constexpr int64_t kMemoryBound = int64_t{256} << 20;
constexpr absl::Duration kBackToNormal = absl::Seconds(5);
// For what goes on meanwhile.
constexpr absl::Duration kAdminPatience = absl::Seconds(10);
constexpr absl::Duration kHealthPatience = absl::Seconds(5);

// `VmHWM` or `VmRSS`, in bytes.
int64_t MemoryOf(pid_t pid, const std::string& line) {
  std::ifstream in(absl::StrCat("/proc/", pid, "/status"));
  for (std::string word; in >> word;) {
    int64_t kibibytes = 0;
    if (word == line + ":" && in >> kibibytes) return kibibytes << 10;
  }
  return 0;
}

class OverloadTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (TestPlatform::Unable().has_value()) return;
    rlimit files = {};
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    platform_ =
        new TestPlatform(absl::StrCat("fencing: {min_fence_after: 1s, replace_margin: 1s}\n",
                                      "scheduler: {max_jobs: ", kMaxJobs, "}\n"));
    platform_->Up();
    ASSERT_TRUE(platform_->AwaitReady());
    platform_->MustCapstan({"role", "bind", kResearcher, "researcher", "--project=default"});
    platform_->Down();
    credentials::StoredAuthority authority(platform_->data_dir() + "/credentials");
    researcher_ = PersonBy(authority, kResearcher);
    platform_->Up();
    ASSERT_TRUE(platform_->AwaitReady());
    platform_->Submit({.id = "gang",
                       .ranks = kRanks,
                       .steps = 1'000'000,
                       .step = absl::Milliseconds(100),
                       .fence_after = absl::Seconds(15)});
    ASSERT_TRUE(platform_->Await([] { return platform_->Witnesses().Count("start") == kRanks; }));
    endpoints_ = new cli::v1::Endpoints(cli::ReadEndpoints(platform_->data_dir()).value());
    platform_->MustCapstan({"access", "whoami"});
    identity_ = rpc::Identity::Load(platform_->data_dir() + "/person").value();
  }
  static void TearDownTestSuite() {
    researcher_ = nullptr;
    identity_ = nullptr;
    delete endpoints_;
    delete platform_;
    platform_ = nullptr;
  }
  void SetUp() override {
    if (platform_ == nullptr) GTEST_SKIP() << *TestPlatform::Unable();
    beating_ = std::thread([this] { Beat(); });
  }
  void TearDown() override {
    if (platform_ == nullptr) return;
    const BootTime over = Now();
    std::string wrong;
    EXPECT_TRUE(platform_->Await(
        [&] {
          wrong = WhatIsNotNormal();
          if (!wrong.empty())
            std::printf("after %s: %s\n", Told(Now() - over).c_str(), wrong.c_str());
          return wrong.empty();
        },
        kBackToNormal))
        << wrong;
    std::printf("normal after %s\n", Told(Now() - over).c_str());
    stop_.Notify();
    beating_.join();
    std::printf("meanwhile: health told within %s, an admin answered within %s\n",
                absl::FormatDuration(absl::Trunc(slowest_health_, absl::Milliseconds(1))).c_str(),
                absl::FormatDuration(absl::Trunc(slowest_admin_, absl::Milliseconds(1))).c_str());
    EXPECT_EQ(absl::StrJoin(failures_, "\n"), "");
    for (const auto& [part, endpoint] : endpoints_->parts()) {
      const auto process = platform_->Part(part);
      ASSERT_TRUE(process.has_value()) << part;
      const int64_t most = MemoryOf(process->pid, "VmHWM");
      std::printf("%s: at most %d MiB\n", part.c_str(), static_cast<int>(most >> 20));
      EXPECT_LE(most, kMemoryBound) << part;
    }
    // Leases: nobody was fenced, nothing was started again.
    EXPECT_EQ(platform_->Witnesses().Count("start"), kRanks);
    EXPECT_EQ(platform_->Get("gang").generation(), 1);
    EXPECT_EQ(platform_->Get("gang").state(), Job::STATE_RUNNING);
  }

  static BootTime Now() { return clock_.Read().boot; }
  static std::string Path(const std::string& part) {
    return part == "executor" ? "/executor/local" : "/svc/" + part;
  }
  static std::shared_ptr<rpc::Identity> PersonBy(const credentials::StoredAuthority& authority,
                                                 const std::string& uid) {
    const absl::Time now = clock_.Read().wall;
    return rpc::Identity::Store(
               platform_->folder() + "/person-" + uid,
               authority.Issue(absl::StrCat("spiffe://", authority.trust_domain(), "/person/", uid),
                               now - absl::Hours(1), now + absl::Hours(3)))
        .value();
  }
  // As the researcher, unless it says otherwise.
  static std::shared_ptr<grpc::Channel> Dial(
      const std::string& part, const std::shared_ptr<rpc::Identity>& who = researcher_) {
    return DialAlone(endpoints_->parts().at(part).address(),
                     rpc::MutualTlsChannelCredentials(who, &clock_, Path(part)));
  }
  // Bounded by nothing on this side.
  static std::shared_ptr<grpc::Channel> DialUnbounded(const std::string& part) {
    grpc::ChannelArguments settings = rpc::ChannelSettings();
    settings.SetMaxSendMessageSize(-1);
    settings.SetInt(GRPC_ARG_MAX_METADATA_SIZE, 64 << 20);
    return grpc::CreateCustomChannel(
        endpoints_->parts().at(part).address(),
        rpc::MutualTlsChannelCredentials(researcher_, &clock_, Path(part)), settings);
  }

  static gpr_timespec Deadline(absl::Duration from_now) {
    return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                        gpr_time_from_nanos(absl::ToInt64Nanoseconds(from_now), GPR_TIMESPAN));
  }

  // Once in a while, all the time: is it alive, and for an admin too?
  void Beat() {
    const auto channel = Dial("scheduler", identity_);
    const auto jobs = JobService::NewStub(channel);
    do {
      for (const auto& [part, endpoint] : endpoints_->parts()) {
        const BootTime asked = Now();
        const long status =
            HttpGet(absl::StrCat("http://", endpoint.metrics_address(), "/healthz")).status;
        slowest_health_ = std::max(slowest_health_, Now() - asked);
        if (status != 200 || Now() - asked > kHealthPatience) {
          failures_.push_back(absl::StrCat(part, " says ", status, " of its health after ",
                                           absl::FormatDuration(Now() - asked)));
        }
      }
      scheduler::v1::GetJobRequest request;
      request.set_name("projects/default/jobs/gang");
      Job job;
      grpc::ClientContext context;
      rpc::SetDeadline(context, kAdminPatience);
      const BootTime asked = Now();
      const grpc::Status got = jobs->GetJob(&context, request, &job);
      slowest_admin_ = std::max(slowest_admin_, Now() - asked);
      if (!got.ok()) failures_.push_back(absl::StrCat("an admin is told ", got.error_message()));
    } while (!stop_.WaitForNotificationWithTimeout(absl::Milliseconds(200)));
  }

  static std::string Told(absl::Duration time) {
    return absl::FormatDuration(absl::Trunc(time, absl::Milliseconds(10)));
  }

  // Empty if all parts are ready, and quick to answer.
  static std::string WhatIsNotNormal() {
    for (const auto& [part, endpoint] : endpoints_->parts()) {
      const auto ready = HttpGet(absl::StrCat("http://", endpoint.metrics_address(), "/readyz"));
      if (ready.status != 200) return absl::StrCat(part, " is not ready: ", ready.body);
    }
    const BootTime asked = Now();
    const CommandResult listed = platform_->Capstan({"job", "list"});
    const absl::Duration took = Now() - asked;
    if (listed.exit_code != 0) {
      return absl::StrCat("`job list` ends with ", listed.exit_code, ": ", listed.err);
    }
    return took < absl::Seconds(1) ? "" : absl::StrCat("`job list` takes ", Told(took));
  }

  static SystemClock clock_;
  static TestPlatform* platform_;
  static cli::v1::Endpoints* endpoints_;
  // The admin, who is to be answered, and who asks for too much.
  static std::shared_ptr<rpc::Identity> identity_;
  static std::shared_ptr<rpc::Identity> researcher_;

  absl::Notification stop_;
  std::thread beating_;
  absl::Duration slowest_health_;
  absl::Duration slowest_admin_;
  std::vector<std::string> failures_;
};

SystemClock OverloadTest::clock_;
TestPlatform* OverloadTest::platform_ = nullptr;
cli::v1::Endpoints* OverloadTest::endpoints_ = nullptr;
std::shared_ptr<rpc::Identity> OverloadTest::identity_;
std::shared_ptr<rpc::Identity> OverloadTest::researcher_;

TEST_F(OverloadTest, CallsWithoutPauseAtEachService) {
  struct Target {
    const char* part;
    const char* method;
    // Calls a second that it is made for (docs/reliability.md, *How much a service is made for*).
    int design_rate;
  };
  constexpr Target kTargets[] = {
      {"cluster_manager", "/capstan.clustermanager.v1.ClusterService/ListClusters", 10},
      {"credentials", "/capstan.credentials.v1.AccessService/GetCallerAccess", 500},
      {"data_loader", "/capstan.dataloader.v1.DatasetService/ListDatasets", 500},
      {"scheduler", "/capstan.scheduler.v1.JobService/ListJobs", 500},
      {"telemetry", "/capstan.telemetry.v1.ArchiveService/ListArchivedJobs", 500},
  };
  scheduler::v1::ListJobsRequest list;
  list.set_parent("projects/default");
  for (const auto& [part, method, design_rate] : kTargets) {
    std::vector<std::shared_ptr<grpc::Channel>> channels;
    for (int i = 0; i < kChannels; ++i) {
      channels.push_back(Dial(part));
      ASSERT_TRUE(channels.back()->WaitForConnected(Deadline(absl::Seconds(30)))) << part;
    }
    // `parent` has the same number in all of them, and others leave it out.
    CallStorm storm(channels, method, list.SerializeAsString(), kOutstanding, &clock_);
    stop_.WaitForNotificationWithTimeout(kStorm);
    const StormEnd end = storm.Stop();
    std::printf("%s: %.1f times the %d calls/s that it is made for: %s\n", part,
                end.PerSecond() / design_rate, design_rate, end.Describe().c_str());
    // Answered, or told when to come again: one person may not have that many calls under way.
    EXPECT_GT(end.ends.count(grpc::StatusCode::RESOURCE_EXHAUSTED), 0u) << part;
    EXPECT_GT(end.ends.count(grpc::StatusCode::OK), 0u) << part;
    EXPECT_EQ(end.without_delay, 0) << part;
    EXPECT_GT(end.all(), kOutstanding) << part;
    for (const auto& [code, count] : end.ends) {
      EXPECT_TRUE(code == grpc::StatusCode::OK || code == grpc::StatusCode::RESOURCE_EXHAUSTED)
          << part << ": " << end.Describe();
    }
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
    EXPECT_TRUE(channel->WaitForConnected(Deadline(absl::Seconds(30))));
  }
  // Newcomers get in all the same.
  EXPECT_EQ(platform_->Capstan({"job", "list"}).exit_code, 0);
  stop_.WaitForNotificationWithTimeout(kStorm);
  EXPECT_EQ(platform_->Capstan({"node", "list"}).exit_code, 0);
}

TEST_F(OverloadTest, MessagesAndHeadersThatAreTooLarge) {
  scheduler::v1::ListJobsRequest giant;
  giant.set_parent("projects/default");
  giant.set_page_token(std::string(16 << 20, 'x'));
  for (const char* part :
       {"scheduler", "credentials", "data_loader", "telemetry", "cluster_manager"}) {
    // Whatever the method: what is too large is refused before.
    const auto channel = DialUnbounded(part);
    for (int i = 0; i < 20; ++i) {
      const grpc::Status status =
          RawCall(channel, "/capstan.scheduler.v1.JobService/ListJobs", giant, absl::Seconds(20));
      EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED)
          << part << ": " << status.error_message();
    }
  }
  const auto jobs = JobService::NewStub(DialUnbounded("scheduler"));
  for (int i = 0; i < 50; ++i) {
    grpc::ClientContext context;
    rpc::SetDeadline(context, absl::Seconds(20));
    for (int k = 0; k < 256; ++k) {
      context.AddMetadata(absl::StrCat("x-flood-", k), std::string(4096, 'x'));
    }
    scheduler::v1::ListJobsRequest request;
    request.set_parent("projects/default");
    scheduler::v1::ListJobsResponse response;
    const grpc::Status status = jobs->ListJobs(&context, request, &response);
    // Told so, or the connection is ended.
    EXPECT_TRUE(status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED ||
                status.error_code() == grpc::StatusCode::UNAVAILABLE)
        << status.error_code() << ": " << status.error_message();
  }
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
  stop_.WaitForNotificationWithTimeout(kStorm);
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
  stop_.WaitForNotificationWithTimeout(kStorm);
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
  std::vector<std::shared_ptr<grpc::Channel>> channels;
  for (int i = 0; i < kChannels; ++i) {
    channels.push_back(Dial("scheduler"));
    ASSERT_TRUE(channels.back()->WaitForConnected(Deadline(absl::Seconds(30))));
  }
  CallStorm storm(channels, "/capstan.scheduler.v1.JobService/CreateJob", JobWithoutRoom(),
                  kOutstanding, &clock_);
  stop_.WaitForNotificationWithTimeout(2 * kStorm);
  const StormEnd end = storm.Stop();
  std::printf("%s\n", end.Describe().c_str());
  EXPECT_GT(end.ends.count(grpc::StatusCode::RESOURCE_EXHAUSTED), 0u);
  ASSERT_GT(end.ends.count(grpc::StatusCode::OK), 0u);
  // The gang is one more.
  EXPECT_LT(end.ends.at(grpc::StatusCode::OK), kMaxJobs);
  EXPECT_EQ(end.without_delay, 0);
  for (const auto& [code, count] : end.ends) {
    EXPECT_TRUE(code == grpc::StatusCode::OK || code == grpc::StatusCode::RESOURCE_EXHAUSTED)
        << end.Describe();
  }
}

}  // namespace
}  // namespace capstan::integration
