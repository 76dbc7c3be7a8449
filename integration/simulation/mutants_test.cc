// Bugs planted one at a time; each must be seen by an invariant within 50 seeds.
#include "integration/simulation/mutants.h"

#include <functional>
#include <iostream>

#include "gtest/gtest.h"
#include "integration/simulation/scenario.h"

namespace capstan::simulation {
namespace {

constexpr uint64_t kSeeds = 50;

void ExpectCaught(const std::function<void(Mutants&)>& plant) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    ScenarioConfig config;
    config.seed = seed;
    plant(config.mutants);
    const Outcome outcome = RunScenario(config);
    if (outcome.violation.empty()) continue;
    std::cout << "caught by seed " << seed << ": " << outcome.violation << std::endl;
    return;
  }
  FAIL() << "not caught within " << kSeeds << " seeds";
}

TEST(MutantsTest, StartBeforePersist) {
  ExpectCaught([](Mutants& mutants) { mutants.start_before_persist = true; });
}
TEST(MutantsTest, LeadershipCompareRemoved) {
  ExpectCaught([](Mutants& mutants) { mutants.no_leadership_compare = true; });
}
TEST(MutantsTest, DeposedLeaderAnswersRenewals) {
  ExpectCaught([](Mutants& mutants) { mutants.deposed_leader_answers = true; });
}
TEST(MutantsTest, ShimIgnoresItsDeadline) {
  ExpectCaught([](Mutants& mutants) { mutants.shim_ignores_deadline = true; });
}
TEST(MutantsTest, PrepareNotUndone) {
  ExpectCaught([](Mutants& mutants) { mutants.prepare_not_undone = true; });
}
TEST(MutantsTest, OutputNotOpenedAtItsGeneration) {
  ExpectCaught([](Mutants& mutants) { mutants.output_not_opened = true; });
}
TEST(MutantsTest, RePlacesBeforeTheFence) {
  ExpectCaught([](Mutants& mutants) { mutants.replaces_early = true; });
}
TEST(MutantsTest, RepliesBeforePersist) {
  ExpectCaught([](Mutants& mutants) { mutants.reply_before_persist = true; });
}
TEST(MutantsTest, ExecutorActsFirst) {
  ExpectCaught([](Mutants& mutants) { mutants.executor_acts_first = true; });
}
TEST(MutantsTest, LoaderActsFirst) {
  ExpectCaught([](Mutants& mutants) { mutants.loader_acts_first = true; });
}
TEST(MutantsTest, CredentialsActsFirst) {
  ExpectCaught([](Mutants& mutants) { mutants.credentials_acts_first = true; });
}
TEST(MutantsTest, CredentialsForgetsDenials) {
  ExpectCaught([](Mutants& mutants) { mutants.credentials_forgets_denials = true; });
}
TEST(MutantsTest, ClusterManagerUncordonsAll) {
  ExpectCaught([](Mutants& mutants) { mutants.cluster_manager_uncordons_all = true; });
}
TEST(MutantsTest, TelemetryForgetsProducers) {
  ExpectCaught([](Mutants& mutants) { mutants.telemetry_forgets_producers = true; });
}
TEST(MutantsTest, FailedCommitTakenAsDone) {
  ExpectCaught([](Mutants& mutants) { mutants.failed_commit_taken = true; });
}

}  // namespace
}  // namespace capstan::simulation
