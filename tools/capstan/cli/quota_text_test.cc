#include "tools/capstan/cli/quota_text.h"

#include <string>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/status/error.h"
#include "libs/time/proto_time.h"
#include "tools/capstan/cli/terminal.h"

namespace capstan::cli {
namespace {

using scheduler::v1::Queue;

TEST(QuotaTextTest, TakesAmountsByResource) {
  Queue queue;
  ASSERT_TRUE(
      AddQuotas({"cpu=64", "memory=1Ti", "nvidia.com/h100=8"}, QuotaField::kGuarantee, &queue)
          .ok());
  ASSERT_TRUE(
      AddQuotas({"memory=unlimited", "cpu=500m"}, QuotaField::kBorrowingLimit, &queue).ok());
  ASSERT_TRUE(AddQuotas({"nvidia.com/h100=0"}, QuotaField::kLendingLimit, &queue).ok());
  ASSERT_EQ(queue.quotas_size(), 3);
  EXPECT_EQ(queue.quotas(0).guarantee(), 64'000);
  EXPECT_EQ(queue.quotas(0).borrowing_limit().amount(), 500);
  EXPECT_FALSE(queue.quotas(0).has_lending_limit()) << "unset is not zero";
  EXPECT_EQ(queue.quotas(1).guarantee(), int64_t{1} << 40);
  EXPECT_TRUE(queue.quotas(1).borrowing_limit().unlimited());
  EXPECT_EQ(queue.quotas(2).lending_limit().limit_case(), scheduler::v1::QuotaLimit::kAmount)
      << "zero is not unset";
  EXPECT_EQ(GuaranteesInWords(queue), "cpu=64 memory=1Ti nvidia.com/h100=8");
  EXPECT_EQ(GuaranteesInWords(Queue()), "-");
}

TEST(QuotaTextTest, RefusesWhatIsNoAmount) {
  for (const char* text : {"cpu", "=4", "cpu=", "cpu=-1", "memory=lots", "cpu=unlimited"}) {
    Queue queue;
    EXPECT_EQ(status::Reason(AddQuotas({text}, QuotaField::kGuarantee, &queue)), "INVALID_QUOTA")
        << text;
  }
  Queue queue;
  EXPECT_FALSE(AddQuotas({"cpu=1", "cpu=2"}, QuotaField::kGuarantee, &queue).ok());
}

TEST(QuotaTextTest, AQueueIsDescribedWithItsLimits) {
  Queue queue;
  queue.set_name("queues/vision");
  queue.set_weight(300);
  queue.add_projects("projects/p");
  ASSERT_TRUE(AddQuotas({"cpu=64"}, QuotaField::kGuarantee, &queue).ok());
  ASSERT_TRUE(
      AddQuotas({"cpu=500m", "memory=unlimited"}, QuotaField::kBorrowingLimit, &queue).ok());
  EXPECT_EQ(DescribeQueue(queue, absl::UnixEpoch(), Terminal()),
            "Name:      queues/vision\n"
            "Uid:       \n"
            "Parent:    none\n"
            "Weight:    300\n"
            "Projects:  projects/p\n"
            "Age:       \n"
            "\n"
            "RESOURCE  GUARANTEE          MAY BORROW  LENDS\n"
            "cpu       64                 500m        as its parent\n"
            "memory    as those below it  unlimited   as its parent\n");
}

TEST(QuotaTextTest, AQueueIsDescribedWithWhatItUsed) {
  Queue queue;
  queue.set_name("queues/vision");
  queue.mutable_usage_half_life()->set_seconds(7 * 86'400);
  EXPECT_EQ(AverageUseInWords(queue), "-");
  const auto add = [&queue](const char* resource, double average, int64_t in_use) {
    auto& usage = *queue.add_usage();
    usage.set_resource(resource);
    usage.set_average(average);
    usage.set_in_use(in_use);
  };
  add("cpu", 12'345.6, 64'000);
  add("memory", 1.5 * (1 << 30), int64_t{1} << 40);
  add("nvidia.com/h100", 0.25, 8);
  EXPECT_EQ(DescribeQueue(queue, absl::UnixEpoch(), Terminal()),
            "Name:      queues/vision\n"
            "Uid:       \n"
            "Parent:    none\n"
            "Weight:    0\n"
            "Projects:  all\n"
            "Half-life: 7d\n"
            "Age:       \n"
            "Share:     0.0% of the fleet, fair 0.0%\n"
            "\n"
            "RESOURCE         IN USE  FAIR SHARE  AVERAGE USE\n"
            "cpu              64      0           12.35\n"
            "memory           1Ti     0           1.5 GiB\n"
            "nvidia.com/h100  8       0           0.25\n");
  EXPECT_EQ(AverageUseInWords(queue), "cpu=12.35 memory=1.5 GiB nvidia.com/h100=0.25");
  queue.mutable_usage_half_life()->set_seconds(0);
  queue.clear_usage();
  EXPECT_NE(DescribeQueue(queue, absl::UnixEpoch(), Terminal())
                .find("Half-life: none, past use does not count\n"),
            std::string::npos);
}

TEST(QuotaTextTest, AQueueIsDescribedWithWhatItIsEntitledTo) {
  Queue queue;
  EXPECT_EQ(ShareInWords(queue), "-");
  queue.set_name("queues/vision");
  queue.set_dominant_share(0.125);
  queue.set_fair_dominant_share(0.5);
  const auto add = [&queue](const char* resource, int64_t in_use, int64_t fair_share) {
    auto& usage = *queue.add_usage();
    usage.set_resource(resource);
    usage.set_in_use(in_use);
    usage.set_fair_share(fair_share);
  };
  add("cpu", 1500, 64'000);
  add("nvidia.com/h100", 2, 8);
  const std::string described = DescribeQueue(queue, absl::UnixEpoch(), Terminal());
  EXPECT_NE(described.find("Share:     12.5% of the fleet, fair 50.0%\n"
                           "\n"
                           "RESOURCE         IN USE  FAIR SHARE\n"
                           "cpu              1500m   64\n"
                           "nvidia.com/h100  2       8\n"),
            std::string::npos)
      << described;
  EXPECT_EQ(ShareInWords(queue), "12.5%/50.0%");
  EXPECT_EQ(AverageUseInWords(queue), "-");
}

TEST(QuotaTextTest, TakesRates) {
  const auto rate = ParseRate("100/1m30s/5");
  ASSERT_TRUE(rate.ok()) << rate.status();
  EXPECT_EQ(rate->count(), 100);
  EXPECT_EQ(rate->period().seconds(), 90);
  EXPECT_EQ(rate->burst(), 5);
  EXPECT_EQ(RateInWords(*rate), "at most 100 in 1m30s, 5 at once");
  EXPECT_EQ(RateInWords(*ParseRate("10/1m")), "at most 10 in 1m");
  EXPECT_EQ(ParseRate("none")->count(), 0);
  for (const char* text :
       {"", "10", "10/", "/1m", "0/1m", "10/1m/0", "10/1m/5/6", "-1/1m", "10/5"}) {
    EXPECT_EQ(status::Reason(ParseRate(text).status()), "INVALID_RATE") << text;
  }
  Queue queue;
  *queue.mutable_submit_rate() = *rate;
  *queue.mutable_start_rate() = *ParseRate("1/10s");
  const std::string described = DescribeQueue(queue, absl::UnixEpoch(), Terminal());
  EXPECT_NE(described.find("Takes:     at most 100 in 1m30s, 5 at once\n"
                           "Starts:    at most 1 in 10s\n"),
            std::string::npos)
      << described;
}

TEST(QuotaTextTest, ReplacesWhatIsNamedAndNothingElse) {
  Queue queue;
  ASSERT_TRUE(AddQuotas({"cpu=64", "memory=1Ti"}, QuotaField::kGuarantee, &queue).ok());
  ASSERT_TRUE(AddQuotas({"cpu=8"}, QuotaField::kBorrowingLimit, &queue).ok());
  ASSERT_TRUE(ReplaceQuotas({"cpu=32", "nvidia.com/h100=8"}, QuotaField::kGuarantee, &queue).ok());
  ASSERT_EQ(queue.quotas_size(), 3);
  EXPECT_EQ(queue.quotas(0).guarantee(), 32'000);
  EXPECT_EQ(queue.quotas(0).borrowing_limit().amount(), 8'000);
  EXPECT_EQ(queue.quotas(1).guarantee(), int64_t{1} << 40);
  EXPECT_EQ(queue.quotas(2).guarantee(), 8);
  EXPECT_FALSE(ReplaceQuotas({"cpu=1", "cpu=2"}, QuotaField::kGuarantee, &queue).ok());
}

TEST(QuotaTextTest, NamesStops) {
  Queue queue;
  EXPECT_EQ(StopsInWords(queue), "-");
  queue.set_cordon(true);
  queue.set_drain(true);
  EXPECT_EQ(StopsInWords(queue), "cordoned,drained");
}

TEST(QuotaTextTest, ReadsBudgets) {
  const auto budget = ParseBudget("3/24h");
  ASSERT_TRUE(budget.ok()) << budget.status();
  EXPECT_EQ(budget->count(), 3);
  EXPECT_EQ(ToDuration(budget->period()), absl::Hours(24));
  EXPECT_EQ(ParseBudget("none")->count(), 0);
  for (const char* bad : {"", "3", "0/1h", "-1/1h", "3/1h/2", "3/soon", "9999999999/1h"}) {
    EXPECT_FALSE(ParseBudget(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace capstan::cli
