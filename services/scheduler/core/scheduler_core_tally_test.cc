// What steps say for metrics to count.
#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/time/proto_time.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "proto/capstan/type/v1/task.pb.h"
#include "services/scheduler/core/core_config.h"
#include "services/scheduler/core/core_harness.h"
#include "services/scheduler/core/events.h"
#include "services/scheduler/core/lost_work.h"
#include "services/scheduler/core/model.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::JobSpec;
using capstan::type::v1::Stop;
using capstan::type::v1::TaskEnd;

// Two Nodes of 4 cores and two GPUs in MIG mode; sums over all steps.
class TallyTest : public ::testing::Test {
 protected:
  TallyTest()
      : harness_(CoreConfig(),
                 [this](const SchedulerCore&, const Event&, Now, const Step* step,
                        const std::map<std::string, std::string>&) {
                   if (step != nullptr) Add(step->tally);
                 }),
        executor_("local", 2, 4000, &harness_) {
    for (int node = 0; node < 2; ++node) executor_.set_mig_gpus(node, {"H100-80GB", "H100-80GB"});
    executor_.Connect();
  }
  void Add(const StepTally& tally) {
    by_priority_ += tally.preempted_by_priority;
    by_guarantee_ += tally.preempted_by_guarantee;
    shrunk_ += tally.shrunk;
    waits_.insert(waits_.end(), tally.waits.begin(), tally.waits.end());
    for (const StepTally::Lost& lost : tally.lost) {
      lost_[std::string(lost.why)] += lost.accelerator_time;
    }
  }
  static JobSpec Spec(int replicas, int priority, const std::string& queue = "default") {
    JobSpec spec = CoreHarness::Spec(replicas, 1000);
    spec.set_priority(priority);
    spec.set_queue(absl::StrCat("queues/", queue));
    return spec;
  }
  void Run(const std::string& id, JobSpec spec) {
    harness_.Deliver(harness_.Submit(id, std::move(spec)));
    executor_.PrepareAll();
    executor_.RunAll();
  }
  void Pass(absl::Duration d) {
    for (; d > absl::ZeroDuration(); d -= absl::Seconds(5)) {
      executor_.Renew();
      harness_.Deliver(harness_.Advance(absl::Seconds(5)));
    }
  }

  int64_t by_priority_ = 0;
  int64_t by_guarantee_ = 0;
  int64_t shrunk_ = 0;
  std::vector<absl::Duration> waits_;
  std::map<std::string, absl::Duration> lost_;
  CoreHarness harness_;
  FakeExecutor executor_;
};

TEST_F(TallyTest, WhoEndsForWhomAndWhatThatCosts) {
  JobSpec low = Spec(4, 0);
  auto& mig = *low.mutable_task_groups(0)->mutable_resources()->mutable_mig();
  mig.set_model("H100-80GB");
  mig.set_profile("3g.40gb");
  JobSpec saves = low;
  *saves.mutable_checkpoint_period() = ToProto(absl::Minutes(2));
  Run("saves", saves);
  Run("loses", low);
  Pass(absl::Minutes(6));
  EXPECT_TRUE(lost_.empty());
  Run("high", Spec(1, 10));
  EXPECT_EQ(by_priority_, 1);
  ASSERT_EQ(lost_.size(), 1u);
  // Two GPUs in four halves, since its last checkpoint.
  EXPECT_EQ(lost_["PREEMPTED"], 2 * absl::Minutes(2));
  CreateQueue create;
  create.call = harness_.next_call();
  create.queue_id = create.uid = "own";
  auto& quota = *create.queue.add_quotas();
  quota.set_resource("cpu");
  quota.set_guarantee(7000);
  harness_.Deliver(harness_.Apply(create));
  Run("mine", Spec(7, 0, "own"));
  Pass(absl::Minutes(6));
  EXPECT_EQ(by_guarantee_, 1);
  EXPECT_EQ(shrunk_, 0);
}

TEST_F(TallyTest, HowLongJobsStoodInTheirQueues) {
  Run("first", Spec(8, 0));
  EXPECT_EQ(waits_, std::vector<absl::Duration>{absl::ZeroDuration()});
  Run("second", Spec(8, 0));
  Pass(absl::Minutes(3));
  EXPECT_EQ(waits_.size(), 1u);
  for (const std::string& key : executor_.Keys()) executor_.End(key, TaskEnd::CAUSE_EXITED);
  ASSERT_EQ(waits_.size(), 2u);
  EXPECT_EQ(waits_[1], absl::Minutes(3));
}

TEST(LostWorkTest, CountsWhatRanSinceTheLastCheckpoint) {
  JobEntry job;
  job.gang.emplace();
  auto& group = *job.spec.mutable_spec()->add_task_groups();
  group.set_replicas(4);
  (*group.mutable_resources()->mutable_accelerators())["nvidia.com/h100"] = 8;
  EXPECT_EQ(LostAcceleratorTime(job, absl::Seconds(10)), absl::Seconds(320));
  *job.spec.mutable_spec()->mutable_checkpoint_period() = ToProto(absl::Seconds(3));
  EXPECT_EQ(LostAcceleratorTime(job, absl::Seconds(10)), absl::Seconds(96));
  EXPECT_EQ(LostAcceleratorTime(job, absl::Seconds(1)), absl::Seconds(32));
}

TEST(LostWorkTest, SaysWhyOfAClosedSet) {
  Gang gang;
  const auto with = [&gang](Stop::Reason reason) {
    gang.head.set_stop_reason(reason);
    return std::string(WhyWorkIsLost(gang));
  };
  EXPECT_EQ(with(Stop::REASON_TIME_LIMIT), "");
  EXPECT_EQ(with(Stop::REASON_CANCELLED), "");
  EXPECT_EQ(with(Stop::REASON_GROWN), "GROWN");
  EXPECT_EQ(with(Stop::REASON_GANG_FAILED), "TASK_FAILED");
  gang.head.mutable_failure()->mutable_end()->set_cause(TaskEnd::CAUSE_LOST);
  EXPECT_EQ(with(Stop::REASON_GANG_FAILED), "NODE_LOST");
  gang.head.mutable_move();
  EXPECT_EQ(with(Stop::REASON_PREEMPTED), "REPARTITIONED");
  std::vector<absl::string_view> reasons = LostWorkReasons();
  for (int reason = 0; reason <= Stop::Reason_MAX; ++reason) {
    if (!Stop::Reason_IsValid(reason)) continue;
    const std::string why = with(static_cast<Stop::Reason>(reason));
    EXPECT_TRUE(why.empty() || std::find(reasons.begin(), reasons.end(), why) != reasons.end())
        << why;
  }
}

}  // namespace
}  // namespace capstan::scheduler
