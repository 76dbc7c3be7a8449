#include "services/telemetry/core/scrape_targets.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/status/error.h"

namespace capstan::telemetry {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr absl::Duration kForgetAfter = absl::Hours(1);

v1::ReportScrapeTargetRequest At(const std::string& address, const std::string& instance = "") {
  v1::ReportScrapeTargetRequest request;
  request.set_metrics_address(address);
  request.set_instance(instance);
  return request;
}

std::vector<std::string> Lines(const ScrapeTargets& targets) {
  std::vector<std::string> lines;
  const core::ScrapeTargetList list = targets.List();
  for (const core::ScrapeTarget& target : list.targets()) {
    lines.push_back(absl::StrCat(target.identity_path(), " ", target.instance(), " ",
                                 target.metrics_address()));
  }
  return lines;
}

class ScrapeTargetsTest : public ::testing::Test {
 protected:
  bool Report(const auth::SpiffeId& caller, const v1::ReportScrapeTargetRequest& request) {
    EXPECT_EQ(CheckReport(request), absl::OkStatus());
    const absl::StatusOr<bool> changed = targets_.Report(caller, request, now_);
    EXPECT_TRUE(changed.ok()) << changed.status();
    return changed.ok() && *changed;
  }

  const auth::SpiffeId node_ = auth::SpiffeId::Node("d", "east", "h1");
  const auth::SpiffeId scheduler_ = auth::SpiffeId::Service("d", "scheduler");
  BootTime now_ = BootTime() + absl::Hours(5);
  ScrapeTargets targets_{kForgetAfter};
};

TEST_F(ScrapeTargetsTest, AProcessHasOneEntryWithItsLastAddress) {
  EXPECT_TRUE(Report(node_, At("10.0.1.1:9106")));
  EXPECT_FALSE(Report(node_, At("10.0.1.1:9106")));
  EXPECT_TRUE(Report(node_, At("10.0.1.1:9107")));
  // A Node has one entry, whatever instance it says.
  EXPECT_FALSE(Report(node_, At("10.0.1.1:9107", "another")));
  EXPECT_THAT(Lines(targets_), ElementsAre("/node/east/h1  10.0.1.1:9107"));
}

TEST_F(ScrapeTargetsTest, ReplicasOfAServiceAreApart) {
  EXPECT_TRUE(Report(scheduler_, At("10.0.0.1:9101", "10.0.0.1:7101")));
  EXPECT_TRUE(Report(scheduler_, At("10.0.0.2:9101", "10.0.0.2:7101")));
  EXPECT_THAT(Lines(targets_), ElementsAre("/svc/scheduler 10.0.0.1:7101 10.0.0.1:9101",
                                           "/svc/scheduler 10.0.0.2:7101 10.0.0.2:9101"));
}

TEST_F(ScrapeTargetsTest, WhatIsSilentStaysForAWhileAndLeaves) {
  Report(node_, At("10.0.1.1:9106"));
  now_ = now_ + kForgetAfter / 2;
  Report(scheduler_, At("10.0.0.1:9101"));
  now_ = now_ + (kForgetAfter / 2 - absl::Nanoseconds(1));
  EXPECT_FALSE(targets_.Forget(now_));
  now_ = now_ + absl::Nanoseconds(1);
  EXPECT_TRUE(targets_.Forget(now_));
  EXPECT_FALSE(targets_.Forget(now_));
  EXPECT_THAT(Lines(targets_), ElementsAre("/svc/scheduler  10.0.0.1:9101"));
}

TEST_F(ScrapeTargetsTest, WhatWasKeptCountsFromTheRestart) {
  Report(node_, At("10.0.1.1:9106"));
  core::ScrapeTargetList kept = targets_.List();
  kept.add_targets()->set_metrics_address("nonsense");
  ScrapeTargets restarted(kForgetAfter);
  restarted.Load(kept, now_ + absl::Hours(9));
  EXPECT_THAT(Lines(restarted), ElementsAre("/node/east/h1  10.0.1.1:9106"));
  EXPECT_FALSE(restarted.Forget(now_ + absl::Hours(9) + kForgetAfter / 2));
  EXPECT_TRUE(restarted.Forget(now_ + absl::Hours(9) + kForgetAfter));
}

TEST_F(ScrapeTargetsTest, IsBounded) {
  core::ScrapeTargetList kept;
  for (size_t i = 0; i < kMaxScrapeTargets + 5; ++i) {
    core::ScrapeTarget* target = kept.add_targets();
    target->set_identity_path(absl::StrCat("/node/c/n", i));
    target->set_metrics_address("10.0.0.1:1");
  }
  targets_.Load(kept, now_);
  EXPECT_EQ(targets_.size(), kMaxScrapeTargets);
  const auto more = targets_.Report(scheduler_, At("10.0.0.1:9101"), now_);
  EXPECT_EQ(status::Reason(more.status()), "TOO_MANY_TARGETS");
  // Who is there may go on.
  EXPECT_FALSE(Report(auth::SpiffeId::Node("d", "c", "n0"), At("10.0.0.1:1")));
}

TEST(CheckReportTest, AddressesThatCanBeScraped) {
  for (const char* address :
       {"10.0.0.1:9101", "node-7.example.org:80", "[fd00::7]:65535", "localhost:1"}) {
    EXPECT_EQ(CheckReport(At(address)), absl::OkStatus()) << address;
  }
  for (const char* address :
       {"", "10.0.0.1", ":9101", "10.0.0.1:0", "10.0.0.1:65536", "a b:1", "user@host:1",
        "host/path:1", "http://h:1", "fd00::7:1", "[]:1", "h\n:1", "${x}:1", "h: 1", "10.0.0.300:1",
        "127.1:1", "[h]:1", "0.0.0.0:1", "[::]:1"}) {
    const absl::Status refused = CheckReport(At(address));
    EXPECT_THAT(std::string(refused.message()), HasSubstr("metrics_address")) << address;
  }
  EXPECT_FALSE(CheckReport(At(std::string(300, 'h') + ":1")).ok());
  EXPECT_FALSE(CheckReport(At("h:1", "in\nstance")).ok());
  EXPECT_FALSE(CheckReport(At("h:1", std::string(300, 'i'))).ok());
}

}  // namespace
}  // namespace capstan::telemetry
