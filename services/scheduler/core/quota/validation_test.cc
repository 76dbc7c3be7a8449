#include "services/scheduler/core/quota/validation.h"

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "services/scheduler/core/quota/resources.h"

namespace capstan::scheduler {
namespace {

QueueSpec Queue(std::string id, std::string parent = "") {
  QueueSpec spec;
  spec.id = std::move(id);
  spec.parent = std::move(parent);
  return spec;
}

QueueSpec Guaranteed(std::string id, std::string parent, int64_t gpus) {
  QueueSpec spec = Queue(std::move(id), std::move(parent));
  spec.quotas["gpu"].guarantee = Limit::Of(gpus);
  return spec;
}

// The field of the only violation there is.
std::string OnlyField(const std::vector<QueueSpec>& queues) {
  const std::vector<QuotaViolation> found = ValidateQueues(queues);
  if (found.empty()) return "";
  return found.size() == 1 ? found[0].field : absl::StrCat(found.size(), " violations");
}

TEST(ValidateQueuesTest, TakesATree) {
  EXPECT_EQ(OnlyField({}), "");
  EXPECT_EQ(OnlyField({Guaranteed("b", "a", 8), Guaranteed("a", "", 8), Queue("c", "b")}), "");
}

TEST(ValidateQueuesTest, RefusesIds) {
  EXPECT_EQ(OnlyField({Queue("a"), Queue("")}), "queues[1].id");
  EXPECT_EQ(OnlyField({Queue(std::string(64, 'x'))}), "queues[0].id");
  EXPECT_EQ(OnlyField({Queue("a"), Queue("b"), Queue("a")}), "queues[2].id");
}

TEST(ValidateQueuesTest, RefusesWhatIsNoTree) {
  EXPECT_EQ(OnlyField({Queue("a", "x")}), "queues[0].parent");
  EXPECT_EQ(OnlyField({Queue("a", "a")}), "queues[0].parent");
  const std::vector<QuotaViolation> cycle =
      ValidateQueues({Queue("out", "c"), Queue("a", "b"), Queue("b", "c"), Queue("c", "a")});
  ASSERT_EQ(cycle.size(), 1u) << "a cycle is one mistake";
  EXPECT_EQ(cycle[0].field, "queues[1].parent");
  EXPECT_EQ(cycle[0].description, "is below itself: a -> b -> c -> a; expected one that is not");
}

TEST(ValidateQueuesTest, BoundsTheDepth) {
  std::vector<QueueSpec> chain = {Queue("q0")};
  for (int i = 1; i < kMaxQueueDepth; ++i) {
    chain.push_back(Queue(absl::StrCat("q", i), chain.back().id));
  }
  EXPECT_EQ(OnlyField(chain), "");
  chain.push_back(Queue("deep", chain.back().id));
  EXPECT_EQ(OnlyField(chain), "queues[16].parent");
}

TEST(ValidateQueuesTest, RefusesWeightsAndAmountsOutOfBounds) {
  QueueSpec queue = Queue("a");
  for (int64_t weight : {int64_t{0}, int64_t{-1}, kMaxQueueWeight + 1}) {
    queue.weight = weight;
    EXPECT_EQ(OnlyField({queue}), "queues[0].weight");
  }
  queue = Queue("a");
  queue.quotas["gpu"].guarantee = Limit::Unlimited();
  EXPECT_EQ(OnlyField({queue}), "queues[0].quotas[\"gpu\"].guarantee");
  queue.quotas["gpu"] = {.borrowing = Limit::Of(-1)};
  EXPECT_EQ(OnlyField({queue}), "queues[0].quotas[\"gpu\"].borrowing");
  queue.quotas["gpu"] = {.lending = Limit::Of(kMaxAmount + 1)};
  EXPECT_EQ(OnlyField({queue}), "queues[0].quotas[\"gpu\"].lending");
  queue.quotas["gpu"] = {Limit::Of(kMaxAmount), Limit::Unlimited(), Limit::Of(0)};
  EXPECT_EQ(OnlyField({queue}), "");
}

TEST(ValidateQueuesTest, RefusesGuaranteesBeyondTheParents) {
  EXPECT_EQ(OnlyField({Guaranteed("a", "", 8), Guaranteed("b", "a", 5), Guaranteed("c", "a", 4)}),
            "queues[0].quotas[\"gpu\"].guarantee");
  // A queue between that says nothing hands on what is below it.
  EXPECT_EQ(OnlyField({Guaranteed("c", "b", 9), Queue("b", "a"), Guaranteed("a", "", 8)}),
            "queues[2].quotas[\"gpu\"].guarantee");
  EXPECT_EQ(OnlyField({Queue("a"), Guaranteed("b", "a", 5)}), "");
}

TEST(ValidateQueuesTest, RefusesSumsThatOverflow) {
  std::vector<QueueSpec> queues = {Guaranteed("a", "", kMaxAmount), Guaranteed("b", "", 1)};
  EXPECT_EQ(OnlyField(queues), "queues");
  queues.clear();
  for (int i = 0; i < 1000; ++i) {
    queues.push_back(Guaranteed(absl::StrCat("q", i), "", kMaxAmount));
  }
  EXPECT_EQ(OnlyField(queues), "queues");
}

TEST(ValidateQueuesTest, BoundsTheNumberOfResources) {
  QueueSpec queue = Queue("a");
  for (int i = 0; i <= kMaxResources; ++i) queue.quotas[absl::StrCat("r", i)];
  EXPECT_EQ(OnlyField({queue}), "queues");
}

TEST(ValidateQueuesTest, RefusesRatesAndHalfLivesOutOfBounds) {
  QueueSpec queue = Queue("a");
  queue.submit_rate = Rate{.count = 0, .period = absl::Seconds(1), .burst = 1};
  EXPECT_EQ(OnlyField({queue}), "queues[0].submit_rate");
  queue.submit_rate = Rate{.count = 1, .period = absl::Hours(25), .burst = 1};
  EXPECT_EQ(OnlyField({queue}), "queues[0].submit_rate");
  queue = Queue("a");
  queue.start_rate = Rate{.count = 1, .period = absl::Seconds(1), .burst = kMaxRateCount + 1};
  EXPECT_EQ(OnlyField({queue}), "queues[0].start_rate");
  queue = Queue("a");
  queue.half_life = -absl::Seconds(1);
  EXPECT_EQ(OnlyField({queue}), "queues[0].half_life");
}

TEST(ValidateQueuesTest, ReportsEverythingAtOnce) {
  QueueSpec queue = Queue("a", "x");
  queue.weight = 0;
  queue.quotas["gpu"].guarantee = Limit::Of(-3);
  EXPECT_EQ(ValidateQueues({queue}).size(), 3u);
}

}  // namespace
}  // namespace capstan::scheduler
