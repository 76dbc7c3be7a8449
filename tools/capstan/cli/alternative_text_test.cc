#include "tools/capstan/cli/alternative_text.h"

#include "gtest/gtest.h"
#include "libs/time/proto_time.h"

namespace capstan::cli {
namespace {

using scheduler::v1::SimulatePlacementResponse;
using JobOutcome = SimulatePlacementResponse::JobOutcome;

TEST(AlternativeTextTest, ALineStandsBelowTheOthersThoughItKnowsNone) {
  const AlternativeText text({"a", "without-rack-11"});
  EXPECT_EQ(text.Header(), "ALTERNATIVE      WAIT  START  DISPLACED  START AGAIN  JOBS\n");
  v1::AlternativeLine line;
  line.set_name("a");
  auto& others = *line.mutable_response()->mutable_others();
  others.set_waiting(412);
  others.set_started(38);
  EXPECT_EQ(text.Line(line, {}), "a                412   38     0          0            -\n");
  line.set_name("without-rack-11");
  others.set_displaced(12);
  others.set_displaced_started(9);
  line.mutable_response()->add_jobs()->set_outcome(JobOutcome::OUTCOME_STARTS);
  line.mutable_response()->add_jobs()->set_outcome(JobOutcome::OUTCOME_STARTS_LATER);
  line.mutable_response()->add_jobs()->set_outcome(JobOutcome::OUTCOME_WAITS);
  EXPECT_EQ(text.Line(line, {"train.yaml", "x\n.yaml"}),
            "without-rack-11  412   38     12         9            train.yaml STARTS, x\\x0a.yaml "
            "STARTS LATER, jobs[2] WAITS\n");
}

TEST(AlternativeTextTest, SaysWhatWasNotLookedAtAndWhatWasRefused) {
  const AlternativeText text({"a"});
  v1::AlternativeLine line;
  line.set_name("a");
  line.mutable_response()->mutable_others()->set_waiting(10'000);
  line.mutable_response()->mutable_others()->set_left_out(5);
  line.mutable_response()->set_cut_short(true);
  EXPECT_EQ(
      text.Line(line, {}),
      "a            10000  0      0          0            -; 5 more that wait were not looked "
      "at; more would happen than was followed\n");
  line.clear_response();
  line.mutable_error()->set_code(3);
  line.mutable_error()->set_message("no such Node");
  EXPECT_EQ(text.Line(line, {}), "a            refused\n");
}

TEST(AlternativeTextTest, EndsWithWhatItRestsOnAndWhatItTook) {
  const AlternativeText text({"a"});
  scheduler::v1::SimulateChangesResponse response;
  const absl::Time now = absl::FromUnixSeconds(1'800'000'000);
  *response.mutable_state_time() = ToProto(now - absl::Seconds(12));
  response.mutable_summary()->set_simulated_count(3);
  *response.mutable_summary()->mutable_cpu_time() = ToProto(absl::Milliseconds(5'200));
  EXPECT_EQ(text.Summary(response, now),
            "\n3 simulated, all from what was stored 12s ago; it took 5.2s of one core\n");
  response.mutable_summary()->set_refused_count(1);
  EXPECT_EQ(
      text.Summary(response, now - absl::Minutes(1)),
      "\n3 simulated, 1 refused, all from what was stored 0s ago; it took 5.2s of one core\n");
}

}  // namespace
}  // namespace capstan::cli
