#include "tools/capstan/cli/simulation_text.h"

#include "gtest/gtest.h"
#include "libs/time/proto_time.h"

namespace capstan::cli {
namespace {

using scheduler::v1::SimulatePlacementResponse;
using JobOutcome = SimulatePlacementResponse::JobOutcome;

constexpr absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);

JobOutcome& Add(JobOutcome::Outcome outcome, const char* summary,
                SimulatePlacementResponse* response) {
  JobOutcome& job = *response->add_jobs();
  job.set_outcome(outcome);
  job.set_summary(summary);
  return job;
}

TEST(SimulationTextTest, HasARowForEachJobAndNamesWhoEnds) {
  SimulatePlacementResponse response;
  Add(JobOutcome::OUTCOME_STARTS, "starts on 2 nodes of clusters/a", &response)
      .set_data_assumed(true);
  JobOutcome& ends = Add(JobOutcome::OUTCOME_MAKES_ROOM, "2 Jobs are being ended", &response);
  ends.set_victim_count(2);
  ends.add_victims("projects/p/jobs/v");
  JobOutcome& later = Add(JobOutcome::OUTCOME_STARTS_LATER, "lacks\ncpu", &response);
  *later.mutable_estimated_start_time() = ToProto(kNow + absl::Minutes(14));
  later.set_estimate_assumed(true);
  EXPECT_EQ(DescribeSimulation(response, {"a.yaml", "b.yaml", "c.yaml"}, /*nodes_change=*/false,
                               kNow, Terminal()),
            "JOB     OUTCOME       STARTS IN  WHY\n"
            "a.yaml  STARTS        now        starts on 2 nodes of clusters/a; its data is taken "
            "to be there\n"
            "b.yaml  MAKES ROOM    -          2 Jobs are being ended\n"
            "c.yaml  STARTS LATER  <14m?      lacks\\x0acpu\n"
            "\n"
            "b.yaml ends 2 Jobs: projects/p/jobs/v, …\n");
}

TEST(SimulationTextTest, SaysWhoOnlyGivesUpTasks) {
  SimulatePlacementResponse response;
  JobOutcome& ends = Add(JobOutcome::OUTCOME_MAKES_ROOM, "Jobs give up Tasks", &response);
  ends.set_victim_count(3);
  ends.add_victims("projects/p/jobs/v");
  ends.set_shrinking_count(2);
  auto& shrinking = *ends.add_shrinking();
  shrinking.set_job("projects/p/jobs/v");
  shrinking.set_gives_up(2);
  shrinking.set_tasks(6);
  EXPECT_EQ(DescribeSimulation(response, {"a.yaml"}, /*nodes_change=*/false, kNow, Terminal()),
            "JOB     OUTCOME     STARTS IN  WHY\n"
            "a.yaml  MAKES ROOM  -          Jobs give up Tasks\n"
            "\n"
            "a.yaml ends 3 Jobs: projects/p/jobs/v, …\n"
            "  projects/p/jobs/v only gives up at most 2 of its 6 Tasks\n"
            "  1 Job of others only gives up Tasks\n");
}

TEST(SimulationTextTest, SaysWhoIsOnlyMoved) {
  SimulatePlacementResponse response;
  JobOutcome& moves = Add(JobOutcome::OUTCOME_MAKES_ROOM, "1 Job is being moved", &response);
  moves.set_victim_count(1);
  moves.add_victims("projects/p/jobs/v");
  moves.set_moved_count(1);
  EXPECT_EQ(DescribeSimulation(response, {"a.yaml"}, /*nodes_change=*/false, kNow, Terminal()),
            "JOB     OUTCOME     STARTS IN  WHY\n"
            "a.yaml  MAKES ROOM  -          1 Job is being moved\n"
            "\n"
            "a.yaml has 1 Job moved: projects/p/jobs/v; it starts again at once\n");
}

TEST(SimulationTextTest, SaysWhatNodesMeanForOthers) {
  SimulatePlacementResponse response;
  auto& others = *response.mutable_others();
  others.set_waiting(3);
  EXPECT_EQ(DescribeSimulation(response, {}, /*nodes_change=*/true, kNow, Terminal()),
            "Of 3 Jobs that wait, 0 start\n");
  others.set_started(2);
  others.add_started_jobs("projects/p/jobs/a");
  others.add_started_jobs("projects/p/jobs/b");
  others.set_displaced(1);
  others.set_left_out(7);
  response.set_cut_short(true);
  EXPECT_EQ(DescribeSimulation(response, {}, /*nodes_change=*/true, kNow, Terminal()),
            "Of 3 Jobs that wait, 2 start: projects/p/jobs/a, projects/p/jobs/b\n"
            "1 Job loses Tasks with the Nodes that go; 0 of them find a place again at once\n"
            "7 Jobs that wait were not looked at\n"
            "More would happen than was followed.\n");
}

}  // namespace
}  // namespace capstan::cli
