// What Queues may have, are guaranteed and have used, as an administrator sets it on a platform,
// over a killed scheduler.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"
#include "integration/platform/slot_job.h"
#include "integration/platform/test_platform.h"
#include "proto/capstan/scheduler/v1/queue.pb.h"

namespace capstan::integration {
namespace {

using scheduler::v1::Job;
using scheduler::v1::Queue;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

// `capstan help exit-codes`.
constexpr int kConflict = 6;
constexpr int kExhausted = 7;

class QuotaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto unable = TestPlatform::Unable();
    if (unable.has_value()) GTEST_SKIP() << *unable;
    platform_ = std::make_unique<TestPlatform>(
        "node_agent:\n  reserved: {cpu: 0, memory: 0}\n  accelerators: {slot: 400}\n");
    platform_->Up();
  }

  void KillScheduler() {
    platform_->KillAndAwait("scheduler");
    ASSERT_TRUE(platform_->AwaitReady());
  }
  void Create(const std::string& id, std::vector<std::string> more) {
    more.insert(more.begin(), {"queue", "create", id});
    platform_->MustCapstan(more);
  }
  void Update(const std::string& id, const std::string& option, const std::string& value) {
    platform_->MustCapstan({"queue", "update", id, option, value});
  }
  void MustSubmit(const SlotJob& job) { integration::MustSubmit(job, platform_.get()); }
  bool Runs(const std::string& id, int generation = 1) {
    return platform_->AwaitJob(id, absl::StrCat("STATE_RUNNING STARTED ", generation));
  }
  bool Waits(const std::string& id, const std::string& reason) {
    return platform_->AwaitJob(id, absl::StrCat("STATE_QUEUED ", reason, " "));
  }
  std::string Explain(const std::string& id) {
    return platform_->MustCapstan({"job", "explain", id});
  }
  bool AwaitStays(const std::string& id) {
    return platform_->Await(
        [&] { return absl::StrContains(platform_->MustCapstan({"job", "logs", id}), "stays"); });
  }
  // Slots that the Queue has had on average.
  double Average(const std::string& id) {
    Queue queue;
    const std::string json = platform_->MustCapstan({"queue", "get", id, "-o", "json"});
    EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(json, &queue).ok()) << json;
    for (const auto& usage : queue.usage()) {
      if (usage.resource() == "slot") return usage.average();
    }
    return 0;
  }

  std::unique_ptr<TestPlatform> platform_;
};

TEST_F(QuotaTest, AQueueHasNoMoreThanItMayAndOthersNoMoreThanIsLent) {
  Create("team", {"--guarantee", "slot=200", "--borrowing-limit", "slot=50", "--lending-limit",
                  "slot=100"});
  MustSubmit({.id = "a", .slots = 200, .queue = "team"});
  ASSERT_TRUE(Runs("a"));
  // Half of the fleet is free, but the Queue may have only 50 of it.
  MustSubmit({.id = "b", .slots = 60, .queue = "team"});
  ASSERT_TRUE(Waits("b", "QUEUE_LIMIT"));
  const auto expect_limited = [this] {
    EXPECT_THAT(Explain("b"), AllOf(ContainsRegex("queue_limit slot +- +60 .*200 of 250 in use"),
                                    HasSubstr("queues/team's limit of slot were 10 more")));
    EXPECT_EQ(platform_->Get("b").generation(), 0);
  };
  expect_limited();
  KillScheduler();
  MustSubmit({.id = "c", .slots = 40, .queue = "team"});
  ASSERT_TRUE(Runs("c"));
  ASSERT_TRUE(Waits("b", "QUEUE_LIMIT"));
  platform_->MustCapstan({"job", "cancel", "c", "--wait"});
  expect_limited();
  Update("team", "--borrowing-limit", "slot=60");
  EXPECT_TRUE(Runs("b"));

  // Of the 200 that the Queue is guaranteed and does not use 100 are lent.
  for (const char* id : {"a", "b"}) platform_->MustCapstan({"job", "cancel", id, "--wait"});
  MustSubmit({.id = "guest", .slots = 300});
  ASSERT_TRUE(Runs("guest"));
  MustSubmit({.id = "one-more", .slots = 1});
  ASSERT_TRUE(Waits("one-more", "QUEUE_LIMIT"));
  KillScheduler();
  MustSubmit({.id = "another", .slots = 1});
  ASSERT_TRUE(Waits("another", "QUEUE_LIMIT"));
  ASSERT_TRUE(Waits("one-more", "QUEUE_LIMIT"));
  Update("team", "--lending-limit", "slot=101");
  EXPECT_TRUE(Runs("one-more"));
  EXPECT_TRUE(Waits("another", "QUEUE_LIMIT"));
}

TEST_F(QuotaTest, AGuaranteeIsTakenBackAndNoMore) {
  Create("own", {"--guarantee", "slot=200"});
  Update("default", "--min-runtime", "0s");
  const std::string stays = StayingScript(*platform_);
  for (const char* id : {"g1", "g2", "g3", "g4"}) {
    MustSubmit({.id = id, .slots = 100, .script = stays});
  }
  for (const char* id : {"g1", "g2", "g3", "g4"}) ASSERT_TRUE(AwaitStays(id));
  MustSubmit({.id = "mine", .slots = 100, .queue = "own"});
  ASSERT_TRUE(Waits("mine", "MAKING_ROOM"));
  // Amid the grace of the one that ends.
  KillScheduler();
  EXPECT_TRUE(Waits("mine", "MAKING_ROOM"));
  OpenGate(*platform_);
  ASSERT_TRUE(Runs("mine"));
  // Of those of the other Queue: so many run on, and so many were ended, once each.
  const auto expect_guests = [this](int running, int ended) {
    const std::string all = platform_->MustCapstan(
        {"job", "list", "--queue", "default", "-o",
         "jsonpath={range .jobs[*]}{.state} {.generation} {.preemptions};{end}"});
    const std::vector<std::string> each = absl::StrSplit(all, ';');
    EXPECT_EQ(std::count(each.begin(), each.end(), "STATE_RUNNING 1 "), running) << all;
    EXPECT_EQ(std::count(each.begin(), each.end(), "STATE_QUEUED 1 1"), ended) << all;
  };
  expect_guests(3, 1);
  MustSubmit({.id = "rest", .slots = 100, .queue = "own"});
  ASSERT_TRUE(Runs("rest"));
  expect_guests(2, 2);
  // Beyond it nobody is ended, whoever leads.
  MustSubmit({.id = "beyond", .slots = 100, .queue = "own"});
  ASSERT_TRUE(Waits("beyond", "INSUFFICIENT_RESOURCES"));
  EXPECT_THAT(Explain("beyond"), HasSubstr("which is not done"));
  KillScheduler();
  MustSubmit({.id = "again", .slots = 100, .queue = "own"});
  EXPECT_TRUE(Waits("again", "INSUFFICIENT_RESOURCES"));
  EXPECT_EQ(platform_->Get("beyond").generation(), 0);
  expect_guests(2, 2);
}

TEST_F(QuotaTest, JobsAreTakenAndStartedNoFasterThanAQueueSays) {
  Create("slow", {"--submit-rate", "3/1h", "--start-rate", "2/1h"});
  const auto submit_three = [this](const std::string& prefix) {
    for (const char* of : {"1", "2", "3"}) {
      const std::string id = absl::StrCat(prefix, of);
      MustSubmit({.id = id, .queue = "slow"});
    }
    const std::string id = absl::StrCat(prefix, "4");
    const CommandResult refused = Submit({.id = id, .queue = "slow"}, platform_.get());
    EXPECT_EQ(refused.exit_code, kExhausted) << refused.out;
    EXPECT_THAT(refused.err,
                AllOf(HasSubstr("takes at most 3 Jobs in 1h"), HasSubstr("submit again later")));
    EXPECT_NE(platform_->Capstan({"job", "get", id}).exit_code, 0) << "nothing is left of it";
  };
  submit_three("a");
  ASSERT_TRUE(Runs("a1"));
  ASSERT_TRUE(Runs("a2"));
  ASSERT_TRUE(Waits("a3", "QUEUE_RATE"));
  EXPECT_THAT(Explain("a3"), HasSubstr("queue_rate"));
  EXPECT_THAT(
      platform_->MustCapstan({"queue", "get", "slow"}),
      AllOf(HasSubstr("Takes:     at most 3 in 1h"), HasSubstr("Starts:    at most 2 in 1h")));
  // A new leader knows the rates, and begins with all of each.
  KillScheduler();
  ASSERT_TRUE(Runs("a3"));
  submit_three("b");
  ASSERT_TRUE(Runs("b1"));
  ASSERT_TRUE(Waits("b2", "QUEUE_RATE"));
  ASSERT_TRUE(Waits("b3", "QUEUE_RATE"));
  // What waits for a rate is woken in time, of itself.
  Update("slow", "--start-rate", "1/1s");
  EXPECT_TRUE(Runs("b2"));
  EXPECT_TRUE(Runs("b3"));
  Update("slow", "--submit-rate", "none");
  MustSubmit({.id = "b4", .queue = "slow"});
}

TEST_F(QuotaTest, ADrainedQueueIsEmptiedAndGoesOnWhenItIsOpened) {
  Create("team", {});
  const std::string stays = StayingScript(*platform_);
  MustSubmit({.id = "works",
              .slots = 100,
              .queue = "team",
              .script = stays,
              .spec_lines = "  retry: {max_restarts: 0}\n"});
  MustSubmit({.id = "other", .slots = 100});
  ASSERT_TRUE(AwaitStays("works"));
  ASSERT_TRUE(Runs("other"));
  platform_->MustCapstan({"queue", "drain", "team"});
  ASSERT_TRUE(platform_->AwaitJob("works", "STATE_STOPPING"));
  KillScheduler();
  EXPECT_EQ(platform_->Get("works").state(), Job::STATE_STOPPING);
  OpenGate(*platform_);
  ASSERT_TRUE(Waits("works", "QUEUE_HELD"));
  const CommandResult refused = Submit({.id = "late", .queue = "team"}, platform_.get());
  EXPECT_EQ(refused.exit_code, kConflict) << refused.out << refused.err;
  EXPECT_THAT(platform_->MustCapstan({"queue", "list"}), ContainsRegex("team .* drained "));
  // The room is everybody's.
  MustSubmit({.id = "large", .slots = 300});
  ASSERT_TRUE(Runs("large"));
  platform_->MustCapstan({"job", "cancel", "large", "--wait"});
  KillScheduler();
  ASSERT_TRUE(Waits("works", "QUEUE_HELD"));
  EXPECT_THAT(Explain("works"), HasSubstr("team"));
  const Job works = platform_->Get("works");
  EXPECT_EQ(works.counted_restarts(), 0);
  ASSERT_EQ(works.disruptions_size(), 1);
  EXPECT_EQ(works.disruptions(0).reason(), "QUEUE_DRAINED");
  EXPECT_EQ(works.disruptions(0).beneficiary(), "queues/team");
  platform_->MustCapstan({"queue", "undrain", "team"});
  EXPECT_TRUE(Runs("works", 2));
  EXPECT_EQ(platform_->Get("other").generation(), 1);
}

TEST_F(QuotaTest, WhatAQueueUsedCountsOverAKilledScheduler) {
  Create("org", {"--usage-half-life", "1m"});
  for (const char* id : {"one", "two"}) Create(id, {"--parent", "org"});
  const auto submit = [this](const std::string& id, const std::string& queue) {
    MustSubmit({.id = id, .slots = 400, .queue = queue});
    EXPECT_TRUE(Waits(id, "QUEUE_HELD"));
  };
  // Both ask at once, and there is room for one: while nobody used anything who came first.
  platform_->MustCapstan({"queue", "hold", "org"});
  submit("one-a", "one");
  submit("two-a", "two");
  platform_->MustCapstan({"queue", "release", "org"});
  ASSERT_TRUE(Runs("one-a"));
  EXPECT_EQ(platform_->Get("two-a").generation(), 0);
  platform_->MustCapstan({"job", "cancel", "two-a"});

  // After some seconds.
  ASSERT_TRUE(platform_->Await([&] { return Average("one") >= 15; }));
  const double used = Average("one");
  KillScheduler();
  EXPECT_GE(Average("one"), used) << "it has been in use all the time";
  EXPECT_EQ(Average("two"), 0);
  EXPECT_THAT(platform_->MustCapstan({"queue", "list", "-o", "wide"}),
              ContainsRegex("\none .* slot=[0-9]+"));
  platform_->MustCapstan({"queue", "hold", "org"});
  submit("one-b", "one");
  submit("two-b", "two");
  platform_->MustCapstan({"job", "cancel", "one-a", "--wait"});
  platform_->MustCapstan({"queue", "release", "org"});
  ASSERT_TRUE(Runs("two-b"));
  EXPECT_EQ(platform_->Get("one-b").generation(), 0);

  // Where the past does not count, it is the turn of who came first again.
  platform_->MustCapstan({"queue", "hold", "org"});
  submit("two-c", "two");
  Update("org", "--usage-half-life", "0s");
  platform_->MustCapstan({"job", "cancel", "two-b", "--wait"});
  KillScheduler();
  platform_->MustCapstan({"queue", "release", "org"});
  ASSERT_TRUE(Runs("one-b"));
  EXPECT_EQ(platform_->Get("two-c").generation(), 0);
}

}  // namespace
}  // namespace capstan::integration
