// credentials can't be heard for longer than its policy is valid: people are refused, Jobs go on.
#include <signal.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "integration/monitoring/http_request.h"
#include "integration/platform/test_platform.h"
#include "integration/platform/witness_log.h"
#include "proto/capstan/cli/v1/endpoints.pb.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "tools/capstan/cli/exit_code.h"
#include "tools/capstan/cli/platform.h"

namespace capstan::integration {
namespace {

using ::testing::HasSubstr;

// A Node is silent after 10 s, and a Task ends itself 10 s after the scheduler was last heard of:
// each less than what the outage takes.
constexpr char kConfig[] =
    "credentials: {policy_valid: 10s}\n"
    "fencing: {suspect_after: 10s, min_fence_after: 1s, replace_margin: 1s}";
constexpr absl::Duration kFenceAfter = absl::Seconds(10);
// Steps of a witness that are taken while nobody is let in: for twice as long.
constexpr absl::Duration kStep = absl::Milliseconds(100);
constexpr int kStepsMeanwhile = 160;

class PolicyExpiryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto unable = TestPlatform::Unable();
    if (unable.has_value()) GTEST_SKIP() << *unable;
    platform_ = std::make_unique<TestPlatform>(kConfig);
    platform_->Up();
    const auto endpoints = cli::ReadEndpoints(platform_->data_dir());
    ASSERT_TRUE(endpoints.ok()) << endpoints.status();
    endpoints_ = *endpoints;
  }

  // Of each service that people call, something that reads and something that changes.
  static std::vector<std::vector<std::string>> Calls() {
    return {{"job", "list"},
            {"job", "cancel", "steady"},
            {"node", "list"},
            {"node", "cordon", kNode},
            {"queue", "list"},
            {"dataset", "list"},
            {"cluster", "list"},
            {"subscription", "list"},
            {"subscription", "create", "late", "steady/events"},
            {"job", "get", "steady"}};
  }
  CommandResult Short(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"--time-out", "2s"});
    return platform_->Capstan(arguments);
  }
  // A series of a part; -1 without an answer.
  double Metric(const std::string& part, absl::string_view name) {
    const std::string page =
        HttpGet(absl::StrCat("http://", endpoints_.parts().at(part).metrics_address(), "/metrics"))
            .body;
    const std::string series = absl::StrCat("capstan_", part, "_", name, " ");
    for (absl::string_view line : absl::StrSplit(page, '\n')) {
      double value = -1;
      if (absl::ConsumePrefix(&line, series) && absl::SimpleAtod(line, &value)) return value;
    }
    return -1;
  }
  bool PolicyExpired(const std::string& part) { return Metric(part, "policy_expired") == 1; }

  static constexpr char kNode[] = "node-0";
  std::unique_ptr<TestPlatform> platform_;
  cli::v1::Endpoints endpoints_;
};

TEST_F(PolicyExpiryTest, PeopleAreRefusedAndJobsGoOn) {
  platform_->Submit({.id = "steady",
                     .ranks = 2,
                     .steps = 100 * kStepsMeanwhile,
                     .step = kStep,
                     .checkpoint_every = 50,
                     .fence_after = kFenceAfter});
  const auto steps = [&]() -> int64_t {
    const WitnessLog log = platform_->Witnesses();
    const auto life = log.lives().find({1, 0});
    return life == log.lives().end() ? 0 : life->second.last_step;
  };
  ASSERT_TRUE(platform_->Await([&] { return steps() > 0; }));

  platform_->Signal("credentials", SIGSTOP);
  const std::vector<std::string> asked = {"scheduler", "data_loader", "cluster_manager",
                                          "telemetry"};
  EXPECT_TRUE(platform_->Await([&] {
    for (const std::string& part : asked) {
      if (!PolicyExpired(part)) return false;
    }
    return true;
  }));
  for (const std::vector<std::string>& call : Calls()) {
    const CommandResult refused = Short(call);
    SCOPED_TRACE(absl::StrJoin(call, " "));
    EXPECT_EQ(refused.exit_code, static_cast<int>(cli::ExitCode::kUnavailable)) << refused.out;
    EXPECT_EQ(refused.out, "");
    EXPECT_THAT(refused.err, HasSubstr("access policy known here is too old"));
    EXPECT_THAT(refused.err, HasSubstr("`capstan dev status`"));
  }
  const int64_t before = steps();
  const double renewals = Metric("scheduler", "renewals_answered_total");
  EXPECT_TRUE(platform_->Await([&] { return steps() >= before + kStepsMeanwhile; }))
      << "a Task that is no longer confirmed has ended";
  EXPECT_EQ(platform_->Witnesses().last_generation(), 1);
  EXPECT_GT(Metric("scheduler", "renewals_answered_total"), renewals);
  EXPECT_LT(Metric("node_agent", "confirmation_age_seconds"), absl::ToDoubleSeconds(kFenceAfter));
  EXPECT_TRUE(PolicyExpired("scheduler"));

  platform_->Signal("credentials", SIGCONT);
  for (const std::vector<std::string>& call : Calls()) {
    // What changes something was only to be refused.
    if (call[1] != "list" && call[1] != "get") continue;
    EXPECT_TRUE(platform_->Await([&] { return Short(call).exit_code == 0; }))
        << absl::StrJoin(call, " ");
  }
  const scheduler::v1::Job job = platform_->Get("steady");
  EXPECT_EQ(job.state(), scheduler::v1::Job::STATE_RUNNING);
  EXPECT_EQ(job.generation(), 1);
  EXPECT_THAT(platform_->MustCapstan({"node", "list"}), HasSubstr("ACTIVE"));
  EXPECT_EQ(absl::StrJoin(platform_->Witnesses().Violations(), "\n"), "");
  platform_->MustCapstan({"job", "cancel", "steady"});
  EXPECT_TRUE(platform_->Await(
      [&] { return platform_->Get("steady").state() == scheduler::v1::Job::STATE_CANCELLED; }));
  platform_->Submit({.id = "next", .ranks = 1, .steps = 1});
  platform_->MustSucceed("next");
}

}  // namespace
}  // namespace capstan::integration
