#include "integration/overload/overload_fixture.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "google/protobuf/wrappers.pb.h"
#include "grpcpp/create_channel.h"
#include "integration/access/raw_call.h"
#include "integration/monitoring/http_request.h"
#include "integration/platform/command.h"
#include "libs/rpc/channel_settings.h"
#include "libs/rpc/credentials.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "tools/capstan/cli/platform.h"

namespace capstan::integration {
namespace {

constexpr int kRanks = 2;
// Nobody's on a Debian machine.
constexpr char kResearcher[] = "4001";
// What each part may use, at any time.
constexpr int64_t kMemoryBound = int64_t{256} << 20;
constexpr absl::Duration kBackToNormal = absl::Seconds(5);
// What is quick.
constexpr absl::Duration kQuick = absl::Seconds(1);
// For what goes on meanwhile.
constexpr absl::Duration kAdminPatience = absl::Seconds(10);
constexpr absl::Duration kHealthPatience = absl::Seconds(5);

struct Service {
  int design_rate;
  // What an admin asks there: the method, and the first field of its request, a name or a parent,
  // which others leave out.
  const char* method;
  const char* named;
};

const std::map<std::string, Service, std::less<>>& Services() {
  static const auto* const kServices = new std::map<std::string, Service, std::less<>>{
      {"cluster_manager",
       {10, "/capstan.clustermanager.v1.ClusterService/ListClusters", "projects/default"}},
      {"credentials",
       {500, "/capstan.credentials.v1.AccessService/GetCallerAccess", "projects/default"}},
      {"data_loader",
       {500, "/capstan.dataloader.v1.DatasetService/ListDatasets", "projects/default"}},
      // Serves Nodes alone: whether it gets to calls at all.
      {"executor", {500, "/grpc.health.v1.Health/Check", ""}},
      {"scheduler", {500, "/capstan.scheduler.v1.JobService/GetJob", "projects/default/jobs/gang"}},
      {"telemetry",
       {500, "/capstan.telemetry.v1.ArchiveService/ListArchivedJobs", "projects/default"}},
  };
  return *kServices;
}

// `VmHWM` or `VmRSS`, in bytes.
int64_t MemoryOf(pid_t pid, const std::string& line) {
  std::ifstream in(absl::StrCat("/proc/", pid, "/status"));
  for (std::string word; in >> word;) {
    int64_t kibibytes = 0;
    if (word == line + ":" && in >> kibibytes) return kibibytes << 10;
  }
  return 0;
}

std::string Path(const std::string& part) {
  return part == "executor" ? "/executor/local" : "/svc/" + part;
}

std::string Told(absl::Duration time) {
  return absl::FormatDuration(absl::Trunc(time, absl::Milliseconds(1)));
}

}  // namespace

int DesignRate(absl::string_view part) { return Services().find(part)->second.design_rate; }

SystemClock OverloadTest::clock_;
TestPlatform* OverloadTest::platform_ = nullptr;
cli::v1::Endpoints* OverloadTest::endpoints_ = nullptr;
credentials::StoredAuthority* OverloadTest::authority_ = nullptr;

std::shared_ptr<rpc::Identity>& OverloadTest::admin() {
  static auto& identity = *new std::shared_ptr<rpc::Identity>();
  return identity;
}

std::shared_ptr<rpc::Identity>& OverloadTest::researcher() {
  static auto& identity = *new std::shared_ptr<rpc::Identity>();
  return identity;
}

void OverloadTest::SetUpTestSuite() {
  if (TestPlatform::Unable().has_value()) return;
  rlimit files = {};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  platform_ = new TestPlatform(absl::StrCat("fencing: {min_fence_after: 1s, replace_margin: 1s}\n",
                                            "scheduler: {max_jobs: ", kMaxJobs, "}\n"));
  platform_->Up();
  ASSERT_TRUE(platform_->AwaitReady());
  platform_->MustCapstan({"role", "bind", kResearcher, "researcher", "--project=default"});
  platform_->Down();
  authority_ = new credentials::StoredAuthority(platform_->data_dir() + "/credentials");
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
  admin() = rpc::Identity::Load(platform_->data_dir() + "/person").value();
  researcher() = IdentityOfUser(kResearcher);
}

void OverloadTest::TearDownTestSuite() {
  researcher() = nullptr;
  admin() = nullptr;
  delete endpoints_;
  delete authority_;
  delete platform_;
  platform_ = nullptr;
}

void OverloadTest::SetUp() {
  if (platform_ == nullptr) GTEST_SKIP() << *TestPlatform::Unable();
  ASSERT_NE(researcher(), nullptr);
  // One who is there when it begins; newcomers are for ExpectNormal.
  for (const auto& [part, service] : Services()) {
    admin_channels_[part] = Dial(part, admin());
    ASSERT_TRUE(Await(admin_channels_[part])) << part;
  }
  beating_ = std::make_unique<ThreadStrand>("beat", &clock_);
  beating_->Post([this] { Beat(); });
}

void OverloadTest::TearDown() {
  if (beating_ == nullptr) return;
  ExpectNormal(over_.value_or(Now()));
  stop_.Notify();
  beating_ = nullptr;
  std::printf("meanwhile: health told within %s\n", Told(slowest_health_).c_str());
  for (const auto& [part, asked] : admin_asked_) {
    std::printf("an admin answered at %s within %s, %d times\n", part.c_str(),
                Told(asked.slowest).c_str(), static_cast<int>(asked.times));
  }
  EXPECT_EQ(admin_asked_.size(), Services().size());
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
  EXPECT_EQ(platform_->Get("gang").state(), scheduler::v1::Job::STATE_RUNNING);
}

std::shared_ptr<rpc::Identity> OverloadTest::IdentityOf(absl::string_view path) {
  static int number = 0;
  const absl::Time now = clock_.Read().wall;
  return rpc::Identity::Store(
             absl::StrCat(platform_->folder(), "/identity-", ++number),
             authority_->Issue(absl::StrCat("spiffe://", authority_->trust_domain(), path),
                               now - absl::Hours(1), now + absl::Hours(3)))
      .value();
}

// By the people's socket, as that user has it: what StoredAuthority signs is no session, which alone
// may be renewed.
std::shared_ptr<rpc::Identity> OverloadTest::IdentityOfUser(const std::string& uid) {
  const std::string home = absl::StrCat(platform_->folder(), "/home-", uid);
  const std::string program = platform_->folder() + "/capstan";
  {
    // The one of the test lies where only its owner may go.
    std::ifstream in(platform_->CommandLine({}).front(), std::ios::binary);
    std::ofstream(program, std::ios::binary) << in.rdbuf();
  }
  int number = 0;
  const bool made = absl::SimpleAtoi(uid, &number) && chmod(program.c_str(), 0755) == 0 &&
                    mkdir(home.c_str(), 0700) == 0 && chown(home.c_str(), number, number) == 0;
  EXPECT_TRUE(made);
  const CommandResult asked =
      RunCommand({"/usr/bin/setpriv", "--reuid=" + uid, "--regid=" + uid, "--clear-groups", program,
                  "--data-dir", platform_->data_dir(), "access", "whoami"},
                 {"PATH=/usr/bin:/bin", "HOME=" + home, "LANG=C.UTF-8"}, platform_->folder());
  EXPECT_EQ(asked.exit_code, 0) << asked.out << asked.err;
  auto identity = rpc::Identity::Load(home + "/.local/state/capstan/person");
  EXPECT_TRUE(identity.ok()) << identity.status();
  return identity.ok() ? *std::move(identity) : nullptr;
}

std::shared_ptr<grpc::Channel> OverloadTest::Dial(const std::string& part,
                                                  const std::shared_ptr<rpc::Identity>& who) {
  return DialAlone(endpoints_->parts().at(part).address(),
                   rpc::MutualTlsChannelCredentials(who, &clock_, Path(part)));
}

std::shared_ptr<grpc::Channel> OverloadTest::DialUnbounded(
    const std::string& part, const std::shared_ptr<rpc::Identity>& who) {
  grpc::ChannelArguments settings = rpc::ChannelSettings();
  settings.SetMaxSendMessageSize(-1);
  settings.SetInt(GRPC_ARG_MAX_METADATA_SIZE, 64 << 20);
  return grpc::CreateCustomChannel(endpoints_->parts().at(part).address(),
                                   rpc::MutualTlsChannelCredentials(who, &clock_, Path(part)),
                                   settings);
}

OverloadTest::Channels OverloadTest::DialAll(const std::string& part,
                                             const std::shared_ptr<rpc::Identity>& who) {
  Channels channels;
  for (int i = 0; i < kChannels; ++i) {
    channels.push_back(Dial(part, who));
    const bool connected = Await(channels.back());
    EXPECT_TRUE(connected) << part;
    if (!connected) return {};
  }
  return channels;
}

bool OverloadTest::Await(const std::shared_ptr<grpc::Channel>& channel) {
  return channel->WaitForConnected(
      gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_seconds(30, GPR_TIMESPAN)));
}

StormEnd OverloadTest::Storm(absl::string_view name, const std::string& part, Channels channels,
                             StormCall call, absl::Duration lasts, int outstanding) {
  if (channels.empty()) return {};
  CallStorm storm(std::move(channels), std::move(call), outstanding, &clock_);
  Wait(lasts);
  StormEnd end = storm.Stop();
  const int design_rate = DesignRate(part);
  const double times = end.PerSecond() / design_rate;
  std::printf("%s: %.1f times the %d calls/s that %s is made for: %s\n", std::string(name).c_str(),
              times, design_rate, part.c_str(), end.Describe().c_str());
  EXPECT_GE(times, kTimesDesignRate) << name;
  EXPECT_GT(end.all(), outstanding) << name;
  EXPECT_EQ(end.without_delay, 0) << name;
  ExpectNormal(end.stopped);
  StormIsOver();
  return end;
}

void OverloadTest::ExpectEnds(const StormEnd& end, const std::set<grpc::StatusCode>& must,
                              const std::set<grpc::StatusCode>& may) {
  for (const grpc::StatusCode code : must) EXPECT_GT(end.ends.count(code), 0u) << code;
  for (const auto& [code, count] : end.ends) {
    EXPECT_TRUE(must.count(code) + may.count(code) > 0) << end.Describe();
  }
}

void OverloadTest::ExpectNormal(BootTime since) {
  std::string wrong;
  const bool normal = platform_->Await(
      [&] {
        wrong = WhatIsNotNormal();
        if (!wrong.empty()) {
          std::printf("after %s: %s\n", Told(Now() - since).c_str(), wrong.c_str());
        }
        return wrong.empty();
      },
      kBackToNormal - (Now() - since));
  const absl::Duration took = Now() - since;
  EXPECT_TRUE(normal && took <= kBackToNormal) << "after " << took << ": " << wrong;
  std::printf("normal after %s\n", Told(took).c_str());
}

grpc::Status OverloadTest::AskAsAdmin(const std::string& part,
                                      const std::shared_ptr<grpc::Channel>& channel,
                                      absl::Duration patience) {
  const Service& service = Services().at(part);
  google::protobuf::StringValue first_field;
  first_field.set_value(service.named);
  return RawCall(channel, service.method, first_field, patience);
}

// Once in a while, all the time: is it alive, and for an admin too?
void OverloadTest::Beat() {
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
    for (const auto& [part, channel] : admin_channels_) {
      const BootTime asked = Now();
      const grpc::Status got = AskAsAdmin(part, channel, kAdminPatience);
      Asked& all = admin_asked_[part];
      all.slowest = std::max(all.slowest, Now() - asked);
      ++all.times;
      if (!got.ok()) {
        failures_.push_back(absl::StrCat("an admin is told at ", part, ": ", got.error_message()));
      }
    }
  } while (!stop_.WaitForNotificationWithTimeout(absl::Milliseconds(200)));
}

std::string OverloadTest::WhatIsNotNormal() {
  for (const auto& [part, endpoint] : endpoints_->parts()) {
    const auto ready = HttpGet(absl::StrCat("http://", endpoint.metrics_address(), "/readyz"));
    if (ready.status != 200) return absl::StrCat(part, " is not ready: ", ready.body);
  }
  // Newcomers, too.
  for (const auto& [part, service] : Services()) {
    const BootTime asked = Now();
    const grpc::Status got = AskAsAdmin(part, Dial(part, admin()), kQuick);
    if (!got.ok()) return absl::StrCat("an admin is told at ", part, ": ", got.error_message());
    if (Now() - asked >= kQuick) return absl::StrCat(part, " takes ", Told(Now() - asked));
  }
  const BootTime asked = Now();
  const CommandResult listed = platform_->Capstan({"job", "list"});
  const absl::Duration took = Now() - asked;
  if (listed.exit_code != 0) {
    return absl::StrCat("`job list` ends with ", listed.exit_code, ": ", listed.err);
  }
  return took < kQuick ? "" : absl::StrCat("`job list` takes ", Told(took));
}

}  // namespace capstan::integration
