// When Jobs that wait start, as people are told on a platform: of one that room is kept for, and of
// ones that are only thought of; over a killed scheduler.
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "integration/platform/slot_job.h"
#include "integration/platform/test_platform.h"
#include "libs/time/proto_time.h"

namespace capstan::integration {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class BackfillTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto unable = TestPlatform::Unable();
    if (unable.has_value()) GTEST_SKIP() << *unable;
    platform_ = std::make_unique<TestPlatform>(
        "node_agent:\n  reserved: {cpu: 0, memory: 0}\n  accelerators: {slot: 4}\n");
    platform_->Up();
    // Three of four slots, for an hour at most.
    MustSubmit({.id = "runs", .slots = 3, .spec_lines = "  stop_grace: 1s\n  time_limit: 1h\n"},
               platform_.get());
    ASSERT_TRUE(platform_->AwaitJob("runs", "STATE_RUNNING STARTED 1"));
  }

  void KillScheduler() {
    platform_->KillAndAwait("scheduler");
    ASSERT_TRUE(platform_->AwaitReady());
  }
  // The Job's line of `job list`, its columns apart.
  std::string Listed(const std::string& id) {
    const std::string all = platform_->MustCapstan({"job", "list"});
    for (const absl::string_view line : absl::StrSplit(all, '\n')) {
      if (absl::StartsWith(line, id + " ")) return std::string(line);
    }
    return all;
  }
  absl::Time EstimateOf(const std::string& id) {
    return ToTime(platform_->Get(id).estimated_start_time());
  }
  // Of what `large` is told, once it is told anything.
  void ExpectTold(absl::Time start, const std::string& in, const std::string& more) {
    EXPECT_THAT(Listed("large"), ContainsRegex(absl::StrCat(" QUEUED .* ", in, " *$")));
    EXPECT_THAT(platform_->MustCapstan({"job", "get", "large"}),
                ContainsRegex(absl::StrCat("Starts in:    ", in, "\n")));
    EXPECT_THAT(
        platform_->MustCapstan({"job", "explain", "large"}),
        HasSubstr(absl::StrCat("  it starts about ",
                               absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", start, absl::UTCTimeZone()),
                               ", when room kept for it is free", more, "\n")));
  }

  std::unique_ptr<TestPlatform> platform_;
};

constexpr char kAnHour[] = "<(59m[0-9]*s?|1h[0-9]?s?)";
constexpr char kADay[] = "<(23h5[0-9]m|1d)\\?";

TEST_F(BackfillTest, ListAndExplainSayWhenTheOneThatRoomIsKeptForStarts) {
  MustSubmit({.id = "large", .slots = 4}, platform_.get());
  ASSERT_TRUE(platform_->Await([&] { return platform_->Get("large").has_estimated_start_time(); }));
  // The limit, and the time to stop.
  const absl::Time declared =
      ToTime(platform_->Get("runs").start_time()) + absl::Hours(1) + absl::Seconds(1);
  const absl::Time start = EstimateOf("large");
  EXPECT_LE(absl::AbsDuration(start - declared), absl::Seconds(1));
  EXPECT_FALSE(platform_->Get("large").estimate_assumed());
  ExpectTold(start, kAnHour, "");
  // What would be over too late, by what it says or for want of that, and what will not be.
  MustSubmit({.id = "late", .spec_lines = "  time_limit: 2h\n"}, platform_.get());
  MustSubmit({.id = "endless"}, platform_.get());
  for (const char* id : {"late", "endless"}) {
    ASSERT_TRUE(platform_->AwaitJob(id, "STATE_QUEUED RESERVED "));
    EXPECT_THAT(Listed(id), Not(HasSubstr("<")));
  }
  MustSubmit({.id = "short", .spec_lines = "  time_limit: 10m\n"}, platform_.get());
  ASSERT_TRUE(platform_->AwaitJob("short", "STATE_RUNNING STARTED 1"));

  KillScheduler();
  EXPECT_LE(absl::AbsDuration(EstimateOf("large") - start), absl::Seconds(1));
  ExpectTold(EstimateOf("large"), kAnHour, "");
  // The leader that took over keeps the room for it.
  platform_->MustCapstan({"job", "cancel", "short", "--wait"});
  for (const char* id : {"late", "endless"}) {
    EXPECT_TRUE(platform_->AwaitJob(id, "STATE_QUEUED RESERVED "));
  }
  MustSubmit({.id = "brief", .spec_lines = "  time_limit: 10m\n"}, platform_.get());
  ASSERT_TRUE(platform_->AwaitJob("brief", "STATE_RUNNING STARTED 1"));
  // Without a limit it is a guess.
  platform_->MustCapstan({"job", "update", "runs", "--time-limit", "none"});
  ASSERT_TRUE(platform_->Await([&] { return platform_->Get("large").estimate_assumed(); }));
  KillScheduler();
  ExpectTold(EstimateOf("large"), kADay, ", if Jobs without a time_limit run for a day at most");
  // By then what takes two hours is over too.
  platform_->MustCapstan({"job", "cancel", "brief"});
  ASSERT_TRUE(platform_->AwaitJob("late", "STATE_RUNNING STARTED 1"));
  // It comes before what came after it, as soon as there is room.
  platform_->MustCapstan({"job", "cancel", "late"});
  platform_->MustCapstan({"job", "cancel", "runs"});
  EXPECT_TRUE(platform_->AwaitJob("large", "STATE_RUNNING STARTED 1"));
  EXPECT_EQ(platform_->Get("endless").generation(), 0);
  EXPECT_THAT(Listed("large"), Not(HasSubstr("<")));
}

TEST_F(BackfillTest, ASimulationSaysWhatWouldBecomeOfJobsAndSubmitsNone) {
  platform_->MustCapstan({"queue", "update", "default", "--min-runtime", "0s"});
  const auto write = [this](const SlotJob& job) {
    std::string file = absl::StrCat(platform_->folder(), "/", job.id, ".yaml");
    std::ofstream(file) << TextOf(job);
    return file;
  };
  // The small one takes what is left, so the other has to wait; and somebody ends for the last.
  const std::string small = write({.id = "small", .spec_lines = "  time_limit: 10m\n"});
  const std::string large = write({.id = "large", .slots = 4});
  const std::string urgent = write({.id = "urgent", .slots = 3, .spec_lines = "  priority: 5\n"});
  const std::string before = platform_->MustCapstan({"job", "list", "-o", "name"});
  const auto expect_told = [&] {
    const std::string told = platform_->MustCapstan({"job", "simulate", small, large, urgent});
    EXPECT_THAT(told, ContainsRegex("small.yaml +STARTS +now +"));
    EXPECT_THAT(told, ContainsRegex(absl::StrCat("large.yaml +STARTS LATER +", kADay, " +")));
    EXPECT_THAT(told, ContainsRegex("urgent.yaml +MAKES ROOM +- +"));
    EXPECT_THAT(told, HasSubstr("urgent.yaml ends 1 Job: projects/default/jobs/runs\n"));
    // Without the one that may run for as long as it likes.
    EXPECT_THAT(platform_->MustCapstan({"job", "simulate", small, large}),
                ContainsRegex(absl::StrCat("large.yaml +STARTS LATER +", kAnHour, " +")));
    // On the Node alone there is no room; on one more there is.
    EXPECT_THAT(platform_->MustCapstan({"job", "simulate", large, "--cordon", "node-0"}),
                ContainsRegex("large.yaml +WAITS +- +"));
    EXPECT_THAT(platform_->MustCapstan({"job", "simulate", large, "--add-nodes", "1=node-0"}),
                ContainsRegex("large.yaml +STARTS +now +"));
    EXPECT_EQ(platform_->MustCapstan({"job", "list", "-o", "name"}), before);
    EXPECT_EQ(platform_->Get("runs").generation(), 1);
  };
  expect_told();
  KillScheduler();
  expect_told();
  // And so it is.
  for (const std::string& file : {small, large, urgent}) {
    platform_->MustCapstan({"job", "submit", file});
  }
  EXPECT_TRUE(platform_->AwaitJob("small", "STATE_RUNNING STARTED 1"));
  EXPECT_TRUE(platform_->AwaitJob("urgent", "STATE_RUNNING STARTED 1"));
  EXPECT_EQ(platform_->Get("runs").preemptions(), 1);
  EXPECT_EQ(platform_->Get("large").generation(), 0);
}

}  // namespace
}  // namespace capstan::integration
