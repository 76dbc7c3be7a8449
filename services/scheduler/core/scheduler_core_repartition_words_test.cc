// What is said of moves: to who asks why a Job waits, and what would happen if.
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/time/proto_time.h"
#include "services/scheduler/core/events.h"
#include "services/scheduler/core/explain.h"
#include "services/scheduler/core/explain_moves.h"
#include "services/scheduler/core/model.h"
#include "services/scheduler/core/repartition_test_fixture.h"
#include "services/scheduler/core/usage.h"
#include "services/scheduler/core/what_if.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::ExplainJobResponse;
using capstan::scheduler::v1::SimulatePlacementRequest;
using capstan::scheduler::v1::SimulatePlacementResponse;
using JobOutcome = SimulatePlacementResponse::JobOutcome;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

class RepartitionWordsTest : public SchedulerCoreRepartitionTest {
 protected:
  explicit RepartitionWordsTest(const CoreConfig& config = Config())
      : SchedulerCoreRepartitionTest(config) {}
  ExplainJobResponse Explain(const std::string& uid, const CoreConfig& config) {
    const Model& model = harness_.core().model();
    const absl::Time now = harness_.now().wall;
    NodeUsage usage;
    for (const auto& [other, job] : model.jobs) usage.Update(other, &job);
    const auto standings = Standings(model, usage, {}, {}, now);
    ExplainJobResponse answer = ExplainJob(model, harness_.job(uid), standings, now);
    ExplainMoves(model, usage, harness_.job(uid), standings, config, now, &answer);
    return answer;
  }
  // What is said of moves; "" if nothing is.
  std::string MovesFor(const std::string& uid) { return MovesFor(uid, harness_.config()); }
  std::string MovesFor(const std::string& uid, const CoreConfig& config) {
    const ExplainJobResponse answer = Explain(uid, config);
    for (const auto& constraint : answer.constraints()) {
      if (constraint.type() != "mig_repartition") continue;
      EXPECT_THAT(answer.summary(), HasSubstr(constraint.message()));
      return constraint.message();
    }
    return "";
  }
  JobOutcome Simulate(const v1::JobSpec& spec) {
    SimulatePlacementRequest request;
    request.set_parent("projects/p");
    *request.add_jobs() = spec;
    request = WithDefaults(harness_.config(), request);
    const auto records = harness_.records();
    Simulation simulation(harness_.config(), StateForSimulation(harness_.core().model(), request),
                          harness_.now());
    const auto response = simulation.Run(request, "person-1");
    EXPECT_TRUE(response.ok()) << response.status();
    EXPECT_EQ(harness_.records(), records);
    return response.ok() ? response->jobs(0) : JobOutcome();
  }
};

class RepartitionOffWordsTest : public RepartitionWordsTest {
 protected:
  RepartitionOffWordsTest() : RepartitionWordsTest(Off()) {}
  static CoreConfig Off() {
    CoreConfig config = Config();
    config.repartition_max_cost = absl::ZeroDuration();
    return config;
  }
};

TEST_F(RepartitionOffWordsTest, SaysWhomOneWouldHaveToMoveAndWhyNobodyIs) {
  v1::JobSpec saving = Sliced(1, "1g.10gb");
  *saving.mutable_checkpoint_period() = ToProto(absl::Minutes(1));
  Start("one", saving);
  Start("filler", Sliced(6, "1g.10gb"));
  Start("other", Sliced(1, "1g.10gb"));
  EndAll("filler");
  Pass(absl::Minutes(4));
  Submit("whole", Sliced(1, "7g.80gb"));
  EXPECT_EQ(MovesFor("whole"),
            "would fit after 1 Job was moved: projects/p/jobs/one (loses 1m of work), at the cost "
            "of 1m7s of GPU time; nobody is, since mig_repartition.max_cost of the scheduler is 0");
  CoreConfig config = harness_.config();
  config.repartition_max_cost = absl::Minutes(1);
  EXPECT_THAT(MovesFor("whole", config),
              EndsWith("; nobody is, since mig_repartition.max_cost of the scheduler is 1m"));
  config.repartition_max_cost = absl::Hours(1);
  EXPECT_THAT(MovesFor("whole", config),
              EndsWith("one Job is made room for at a time, and the next 1m later at the earliest, "
                       "or 10s after a round that found nobody to move"));
  EXPECT_EQ(MovesFor("one"), "");
}

TEST_F(RepartitionOffWordsTest, SaysNothingWhereItWouldNotHelp) {
  Start("one", Sliced(1, "1g.10gb"));
  Start("filler", Sliced(6, "1g.10gb"));
  Start("others", Sliced(7, "1g.10gb"));
  EndAll("filler");
  Submit("whole", Sliced(1, "7g.80gb"));
  EXPECT_EQ(MovesFor("whole"), "");
  // Nor of one that lacks cores.
  Submit("large", CoreHarness::Spec(1, 8000));
  EXPECT_EQ(MovesFor("large"), "");
}

TEST_F(RepartitionOffWordsTest, NamesNobodyOfOtherProjects) {
  for (const char* id : {"one", "filler", "other"}) {
    CreateJob create = harness_.SubmitEvent(id, Sliced(id[0] == 'f' ? 6 : 1, "1g.10gb"));
    create.project = "projects/q";
    harness_.Deliver(harness_.Apply(create));
    Work();
  }
  EndAll("filler");
  Submit("whole", Sliced(1, "7g.80gb"));
  EXPECT_THAT(MovesFor("whole"), HasSubstr("1 Job was moved: 1 Job of other Projects, at"));
}

TEST_F(RepartitionWordsTest, SaysUntilWhenWhoIsInTheWayIsProtected) {
  SetMinRuntime(absl::Minutes(3));
  Scatter(Sliced(1, "1g.10gb"));
  Submit("whole", Sliced(1, "7g.80gb"));
  const std::string until = absl::FormatTime(
      "%Y-%m-%dT%H:%M:%SZ", harness_.now().wall + absl::Minutes(3), absl::UTCTimeZone());
  EXPECT_THAT(MovesFor("whole"), HasSubstr(absl::StrCat("is protected until ", until, ")")));
  EXPECT_THAT(MovesFor("whole"), EndsWith(absl::StrCat("may be begun from ", until, " on")));
}

TEST_F(RepartitionWordsTest, ASimulationSaysWhoWouldBeMoved) {
  Scatter(Sliced(1, "1g.10gb"));
  Pass(absl::Minutes(2));
  const JobOutcome outcome = Simulate(Sliced(1, "7g.80gb"));
  EXPECT_EQ(outcome.outcome(), JobOutcome::OUTCOME_MAKES_ROOM);
  EXPECT_EQ(outcome.victim_count(), 1);
  EXPECT_EQ(outcome.moved_count(), 1);
  Submit("whole", Sliced(1, "7g.80gb"));
  ASSERT_EQ(outcome.victims_size(), 1);
  EXPECT_EQ(outcome.victims(0), absl::StrCat("projects/p/jobs/", Mover()));
  // It is not to be begun beside that one, nor a moment later by somebody who does not know of it.
  EXPECT_NE(Simulate(Sliced(1, "4g.40gb")).outcome(), JobOutcome::OUTCOME_MAKES_ROOM);
}

TEST_F(RepartitionOffWordsTest, ASimulationSaysWhatExplainWouldSay) {
  Scatter(Sliced(1, "1g.10gb"));
  const JobOutcome outcome = Simulate(Sliced(1, "7g.80gb"));
  EXPECT_NE(outcome.outcome(), JobOutcome::OUTCOME_MAKES_ROOM);
  EXPECT_THAT(outcome.summary(), HasSubstr("would fit after 1 Job was moved"));
  EXPECT_THAT(outcome.summary(), Not(HasSubstr("protected")));
}

}  // namespace
}  // namespace capstan::scheduler
