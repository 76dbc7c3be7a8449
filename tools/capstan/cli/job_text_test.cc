#include "tools/capstan/cli/job_text.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/time/proto_time.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "proto/capstan/scheduler/v1/job_service.pb.h"
#include "tools/capstan/cli/terminal.h"

namespace capstan::cli {
namespace {

using scheduler::v1::Job;

// Workers, 4 to 8 of them, of which `placed` have a place, and a server.
Job Elastic(Job::State state, int placed) {
  Job job;
  job.set_state(state);
  auto& workers = *job.mutable_spec()->add_task_groups();
  workers.set_name("worker");
  workers.set_replicas(8);
  workers.set_min_replicas(4);
  auto& server = *job.mutable_spec()->add_task_groups();
  server.set_name("server");
  server.set_replicas(1);
  for (int i = 0; i < placed; ++i) job.add_tasks()->set_group("worker");
  if (placed > 0) job.add_tasks()->set_group("server");
  return job;
}

constexpr absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);

// In `job list`.
std::string CellOf(const Job& job, const std::string& header) {
  for (const auto& column : JobColumns(kNow)) {
    if (column.header == header) return column.cell(job).text;
  }
  return "no such column";
}

std::string TasksOf(const Job& job) { return CellOf(job, "TASKS"); }

TEST(JobTextTest, ShowsOfElasticJobsHowManyTasksAreThereAndMayBe) {
  EXPECT_EQ(TasksOf(Elastic(Job::STATE_RUNNING, 6)), "7 of 5..9");
  EXPECT_EQ(TasksOf(Elastic(Job::STATE_QUEUED, 0)), "5..9");
  // Those of the generation before.
  EXPECT_EQ(TasksOf(Elastic(Job::STATE_QUEUED, 6)), "5..9");
  const std::string text =
      DescribeJob(Elastic(Job::STATE_RUNNING, 6), absl::UnixEpoch(), Terminal());
  EXPECT_TRUE(absl::StrContains(text, "worker: 6 of 4..8 x ")) << text;
  EXPECT_TRUE(absl::StrContains(text, "server: 1 x ")) << text;
}

TEST(JobTextTest, SaysOfOneThatIsHeldWhatEndsIt) {
  Job job = Elastic(Job::STATE_QUEUED, 0);
  job.set_name("projects/p/jobs/train");
  job.set_reason("HELD");
  job.set_hold(true);
  const auto reason = [&job] { return CellOf(job, "REASON"); };
  EXPECT_EQ(reason(), "HELD");
  EXPECT_TRUE(absl::StrContains(DescribeJob(job, absl::UnixEpoch(), Terminal()),
                                "Held:         until `capstan job release train`"));
  job.set_state(Job::STATE_RUNNING);
  job.set_reason("STARTED");
  EXPECT_EQ(reason(), "STARTED (held)");
  EXPECT_TRUE(absl::StrContains(JobLine(job, absl::UnixEpoch(), Terminal()), "STARTED (held)"));
  job.set_state(Job::STATE_SUCCEEDED);
  job.set_reason("SUCCEEDED");
  EXPECT_EQ(reason(), "SUCCEEDED") << "it is over";
}

TEST(JobTextTest, SaysWhenOneThatRoomIsKeptForStarts) {
  Job job = Elastic(Job::STATE_QUEUED, 0);
  const auto shown = [&job] { return DescribeJob(job, kNow, Terminal()); };
  EXPECT_EQ(CellOf(job, "STARTS IN"), "") << "nobody keeps room for it";
  EXPECT_FALSE(absl::StrContains(shown(), "Starts in:")) << shown();
  *job.mutable_estimated_start_time() = ToProto(kNow + absl::Minutes(14));
  EXPECT_EQ(CellOf(job, "STARTS IN"), "<14m");
  EXPECT_TRUE(absl::StrContains(shown(), "Starts in:    <14m\n")) << shown();
  job.set_estimate_assumed(true);
  EXPECT_EQ(CellOf(job, "STARTS IN"), "<14m?") << "it is a guess";
  EXPECT_TRUE(absl::StrContains(shown(), "Starts in:    <14m?\n")) << shown();
  *job.mutable_estimated_start_time() = ToProto(kNow - absl::Seconds(3));
  EXPECT_EQ(CellOf(job, "STARTS IN"), "<0s?") << "what runs has overrun";
}

TEST(JobTextTest, SaysOfOneThatMayGrowWhen) {
  Job job = Elastic(Job::STATE_RUNNING, 6);
  EXPECT_FALSE(absl::StrContains(DescribeJob(job, absl::UnixEpoch(), Terminal()), "Grows after"));
  job.mutable_spec()->mutable_grow_after()->set_seconds(600);
  EXPECT_TRUE(
      absl::StrContains(DescribeJob(job, absl::UnixEpoch(), Terminal()), "Grows after:  10m"));
}

TEST(JobTextTest, ShowsTheMigProfileThatTasksAskFor) {
  Job job = Elastic(Job::STATE_RUNNING, 6);
  auto& resources = *job.mutable_spec()->mutable_task_groups(0)->mutable_resources();
  resources.set_cpu_millis(2000);
  resources.mutable_mig()->set_model("H100-80GB");
  resources.mutable_mig()->set_profile("1g.10gb");
  const std::string text = DescribeJob(job, absl::UnixEpoch(), Terminal());
  EXPECT_TRUE(absl::StrContains(text, "worker: 6 of 4..8 x cpu 2, MIG 1g.10gb of H100-80GB"))
      << text;
}

TEST(JobTextTest, ShowsTheTreeOfAJob) {
  Job job = Elastic(Job::STATE_QUEUED, 0);
  scheduler::v1::JobSpec& spec = *job.mutable_spec();
  spec.mutable_topology()->set_required(scheduler::v1::Topology::LEVEL_ROW);
  spec.add_sections()->set_name("replica");
  scheduler::v1::Section& stage = *spec.add_sections();
  stage.set_name("stage");
  stage.set_parent("replica");
  stage.mutable_topology()->set_required(scheduler::v1::Topology::LEVEL_RACK);
  spec.mutable_task_groups(0)->set_section("stage");
  scheduler::v1::TaskSlice& slice = *spec.mutable_task_groups(0)->add_slices();
  slice.set_level(scheduler::v1::Topology::LEVEL_NVLINK_DOMAIN);
  slice.set_size(4);
  const std::string text = DescribeJob(job, absl::UnixEpoch(), Terminal());
  EXPECT_TRUE(absl::StrContains(text, "in one ROW\n")) << text;
  const size_t server = text.find(" server: 1 x ");
  const size_t replica = text.find(" replica\n");
  const size_t inner = text.find("   stage, in one RACK\n");
  const size_t workers = text.find("     worker: 4..8 x ");
  ASSERT_NE(workers, std::string::npos) << text;
  EXPECT_TRUE(absl::StrContains(text, ", each 4 in one NVLINK DOMAIN")) << text;
  EXPECT_LT(server, replica) << text;
  EXPECT_LT(replica, inner) << text;
  EXPECT_LT(inner, workers) << text;
}

TEST(JobTextTest, SaysWhichSectionsAGenerationMayBeWithout) {
  Job job = Elastic(Job::STATE_QUEUED, 0);
  scheduler::v1::JobSpec& spec = *job.mutable_spec();
  spec.set_min_sections(1);
  for (const char* name : {"first", "second"}) spec.add_sections()->set_name(name);
  scheduler::v1::Section& inner = *spec.add_sections();
  inner.set_name("inner");
  inner.set_parent("second");
  spec.mutable_task_groups(0)->set_section("first");
  spec.mutable_task_groups(1)->set_section("inner");
  EXPECT_EQ(TasksOf(job), "4..9");
  const auto text = [&job] { return DescribeJob(job, absl::UnixEpoch(), Terminal()); };
  EXPECT_TRUE(absl::StrContains(text(), " first\n")) << text();
  EXPECT_TRUE(absl::StrContains(text(), " second, optional\n")) << text();
  EXPECT_TRUE(absl::StrContains(text(), " inner\n")) << text();
  job.set_state(Job::STATE_RUNNING);
  for (int task = 0; task < 4; ++task) job.add_tasks()->set_group(spec.task_groups(0).name());
  EXPECT_TRUE(absl::StrContains(text(), " second, optional, not there\n")) << text();
  EXPECT_EQ(TasksOf(job), "4 of 4..9");
  job.add_tasks()->set_group(spec.task_groups(1).name());
  EXPECT_TRUE(absl::StrContains(text(), " second, optional\n")) << text();
  // One of one that is needed for it.
  scheduler::v1::Section& other = *spec.add_sections();
  other.set_name("other");
  other.set_parent("second");
  spec.mutable_sections(1)->set_min_sections(1);
  EXPECT_TRUE(absl::StrContains(text(), " inner\n")) << text();
  EXPECT_TRUE(absl::StrContains(text(), " other, optional, not there\n")) << text();
}

TEST(JobTextTest, ShowsOfOtherJobsHowManyTasksTheyHave) {
  Job job = Elastic(Job::STATE_RUNNING, 8);
  job.mutable_spec()->mutable_task_groups(0)->clear_min_replicas();
  EXPECT_EQ(TasksOf(job), "9");
  job.mutable_array()->set_size(3);
  EXPECT_EQ(TasksOf(job), "3 x 9");
  job = Elastic(Job::STATE_QUEUED, 0);
  job.mutable_array()->set_size(3);
  EXPECT_EQ(TasksOf(job), "3 x 5..9");
}

TEST(JobTextTest, SaysWhatWouldLetAJobStart) {
  scheduler::v1::ExplainJobResponse why;
  why.set_summary("queue \"a\" may have 2000 of cpu");
  auto& constraint = *why.add_constraints();
  constraint.set_type("queue_limit");
  constraint.set_level(scheduler::v1::ExplainJobResponse::Constraint::LEVEL_QUOTA);
  constraint.set_queue("queues/a");
  constraint.set_resource("cpu");
  constraint.set_limit(2000);
  constraint.set_in_use(1500);
  constraint.set_requested(3000);
  constraint.set_message("queue \"a\" may have 2000 of cpu");
  why.add_counterfactuals()->set_message("fits if rack r11 frees 2 nvidia.com/h100");
  why.add_counterfactuals()->set_message("fits after preempting projects/p/jobs/j");
  EXPECT_EQ(
      DescribeExplanation(why, Terminal()),
      "queue \"a\" may have 2000 of cpu\n"
      "\n"
      "it would start if one of these came true:\n"
      "  it fits if rack r11 frees 2 nvidia.com/h100\n"
      "  it fits after preempting projects/p/jobs/j\n"
      "\n"
      "CONSTRAINT       NODES  ASKS  FREE  LACKS  WHY\n"
      "queue_limit cpu  -      3     -     -      queue \"a\" may have 2000 of cpu; 1500m of 2 "
      "in use\n");
}

TEST(JobTextTest, SaysAtWhatTimeAJobStarts) {
  scheduler::v1::ExplainJobResponse why;
  why.set_summary("room is kept for it");
  auto& backfill = *why.add_counterfactuals();
  backfill.set_kind(scheduler::v1::ExplainJobResponse::Counterfactual::KIND_BACKFILL);
  backfill.set_message("starts about 2027-01-15T08:14:00Z, when room kept for it is free");
  EXPECT_EQ(DescribeExplanation(why, Terminal()),
            "room is kept for it\n"
            "\n"
            "it would start if one of these came true:\n"
            "  it starts about 2027-01-15T08:14:00Z, when room kept for it is free\n");
}

TEST(JobTextTest, SaysWhoMakesRoomAndWhyEachIsNeeded) {
  scheduler::v1::ExplainJobResponse why;
  why.set_summary("3 Jobs are being ended to make room for it");
  auto& victim = *why.add_victims();
  victim.set_job("projects/p/jobs/j");
  victim.set_message("ends; otherwise at most 6 of its 8 Tasks would have room");
  why.set_victim_count(3);
  EXPECT_EQ(DescribeExplanation(why, Terminal()),
            "3 Jobs are being ended to make room for it\n"
            "\n"
            "room is made for it:\n"
            "  projects/p/jobs/j ends; otherwise at most 6 of its 8 Tasks would have room\n"
            "  2 more jobs\n");
}

}  // namespace
}  // namespace capstan::cli
