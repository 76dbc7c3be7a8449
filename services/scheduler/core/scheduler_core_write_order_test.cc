// A leader may die between any two of the writes of a step. What the next one then finds must be a
// state in which nobody has the room of somebody who, by what is stored, is still there. The harness
// asks that of each step that places a gang; here a leader does die.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "proto/capstan/type/v1/task.pb.h"
#include "services/scheduler/core/core_harness.h"
#include "services/scheduler/core/events.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::JobSpec;
using capstan::type::v1::TaskEnd;
using capstan::type::v1::TaskObservation;

// More than any step here has.
constexpr size_t kMostWrites = 6;

// One report that these Tasks have ended.
ObservationsReceived EndsOf(FakeExecutor* executor, const std::vector<std::string>& keys,
                            const TaskEnd& end) {
  ObservationsReceived ends;
  ends.session = executor->session();
  ends.observations.set_journal_sequence(1'000'000);
  for (const std::string& key : keys) {
    TaskObservation& observed = *ends.observations.add_tasks() = executor->tasks().at(key).observed;
    observed.set_state(TaskObservation::STATE_ENDED);
    *observed.mutable_end() = end;
  }
  return ends;
}

// If the new leader has not had it forget the Task yet.
void EndIfThere(FakeExecutor* executor, const std::string& key, TaskEnd::Cause cause) {
  if (executor->tasks().count(key) > 0) executor->End(key, cause);
}

TEST(SchedulerCoreWriteOrderTest, ATaskHasEndedBeforeAnOlderJobIsThere) {
  TaskEnd success;
  success.set_cause(TaskEnd::CAUSE_EXITED);
  for (size_t writes = 0; writes <= kMostWrites; ++writes) {
    SCOPED_TRACE(writes);
    CoreHarness harness{CoreConfig()};
    FakeExecutor executor("local", 1, 4000, &harness);
    executor.Connect();
    executor.Take(harness.Submit("first", CoreHarness::Spec(1, 4000)));
    executor.PrepareAll();
    executor.RunAll();
    executor.Take(harness.Submit("older", CoreHarness::Spec(1, 2000)));
    JobSpec urgent = CoreHarness::Spec(2, 2000);
    urgent.set_priority(10);
    executor.Take(harness.Submit("urgent", urgent));
    executor.Take(harness.Apply(CancelJob{harness.next_call(), "projects/p/jobs/first", ""}));
    executor.PrepareAll();
    executor.RunAll();
    ASSERT_EQ(harness.job("urgent").state.state(), Job::STATE_RUNNING);
    ASSERT_EQ(harness.job("older").state.state(), Job::STATE_QUEUED);

    harness.CrashIn(EndsOf(&executor, {"urgent/1/worker-0"}, success), writes);
    executor.Disconnect();
    executor.Connect();
    EndIfThere(&executor, "urgent/1/worker-0", TaskEnd::CAUSE_EXITED);
    EXPECT_EQ(harness.job("urgent").state.state(), Job::STATE_RUNNING);
    EXPECT_EQ(harness.job("older").state.state(), Job::STATE_PREPARING);
  }
}

// Each loses its Task and may not come back to where it was, so that they change places in one step.
TEST(SchedulerCoreWriteOrderTest, TwoThatChangePlacesHaveBothEndedBeforeEitherIsPlaced) {
  TaskEnd lost;
  lost.set_cause(TaskEnd::CAUSE_LOST);
  for (size_t writes = 0; writes <= kMostWrites; ++writes) {
    SCOPED_TRACE(writes);
    CoreHarness harness{CoreConfig()};
    FakeExecutor executor("local", 2, 4000, &harness);
    executor.Connect();
    for (const std::string uid : {"a", "b"}) {
      JobSpec spec = CoreHarness::Spec(1, 4000);
      auto& toleration = *spec.add_tolerations();
      toleration.set_key(absl::StrCat("not-for-", uid == "a" ? "b" : "a"));
      toleration.set_any_value(true);
      executor.Take(harness.Submit(uid, spec));
    }
    executor.PrepareAll();
    executor.RunAll();
    const std::string of_a = harness.job("a").gang->nodes[0];
    const std::string of_b = harness.job("b").gang->nodes[0];
    for (const int node : {0, 1}) {
      const std::string uid = executor.NodeName(node) == of_a ? "a" : "b";
      executor.set_taints(node, {{absl::StrCat("not-for-", uid), ""}});
      executor.ReportNode(node, /*silent=*/false);
    }

    harness.CrashIn(EndsOf(&executor, {"a/1/worker-0", "b/1/worker-0"}, lost), writes);
    executor.Disconnect();
    executor.Connect();
    EndIfThere(&executor, "a/1/worker-0", lost.cause());
    EndIfThere(&executor, "b/1/worker-0", lost.cause());
    EXPECT_EQ(harness.job("a").state.generation(), 2);
    EXPECT_EQ(harness.job("a").gang->nodes[0], of_b);
    EXPECT_EQ(harness.job("b").state.generation(), 2);
    EXPECT_EQ(harness.job("b").gang->nodes[0], of_a);
  }
}

}  // namespace
}  // namespace capstan::scheduler
