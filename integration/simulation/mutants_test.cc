// Bugs planted one at a time; each must be seen within 50 seeds, and by an invariant that it is
// about: the words by which that says so.
#include "integration/simulation/mutants.h"

#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "integration/simulation/scenario.h"

namespace capstan::simulation {
namespace {

constexpr uint64_t kSeeds = 50;

struct Planted {
  const char* name;
  bool Mutants::* mutant;
  // Any of them.
  std::vector<const char*> seen_by;
};

const Planted kPlanted[] = {
    // All else that it says too early is lost with commits of a failing disk.
    {"StartBeforePersist",
     &Mutants::start_before_persist,
     {"started without a stored START", "and its owner has not taken it back"}},
    {"LeadershipCompareRemoved",
     &Mutants::no_leadership_compare,
     {"a deposed leader's commit took effect"}},
    {"DeposedLeaderAnswersRenewals",
     &Mutants::deposed_leader_answers,
     {"two live generations", "not settled in time"}},
    {"ShimIgnoresItsDeadline", &Mutants::shim_ignores_deadline, {"two live generations"}},
    {"PrepareNotUndone", &Mutants::prepare_not_undone, {"not settled in time"}},
    {"OutputNotOpenedAtItsGeneration",
     &Mutants::output_not_opened,
     {"begins after step", "committed after generation"}},
    // Another Job may be the first that gets what the fenced one still holds.
    {"RePlacesBeforeTheFence", &Mutants::replaces_early, {"two live generations", " holds "}},
    {"RepliesBeforePersist", &Mutants::reply_before_persist, {"is not stored"}},
    {"ExecutorActsFirst",
     &Mutants::executor_acts_first,
     {"mCPU", "started twice", "two live generations"}},
    {"LoaderActsFirst",
     &Mutants::loader_acts_first,
     {"acknowledged without being stored", "begins after step"}},
    {"VersionToldBeforeItIsPublished",
     &Mutants::version_told_early,
     {"is pinned, and is not at the Site", "is stored as whole, and is not at the Site"}},
    {"LoaderForgetsPins",
     &Mutants::loader_forgets_pins,
     {"leaves the Site while", "a pin is left"}},
    {"EvictionIgnoresPins", &Mutants::eviction_ignores_pins, {"leaves the Site while"}},
    {"LoadForgetsItsJournal",
     &Mutants::load_forgets_journal,
     {"is journalled, and is read from its source again"}},
    {"FailedLoadIsAwaited", &Mutants::failed_load_awaited, {"AWAITING_DATA"}},
    {"CredentialsActsFirst",
     &Mutants::credentials_acts_first,
     {"is signed and not stored", "is published and not stored"}},
    {"CredentialsForgetsDenials",
     &Mutants::credentials_forgets_denials,
     {"is denied", "is published and not stored"}},
    {"CredentialsSkipsTheCompareOfItsTurn",
     &Mutants::credentials_skips_compare,
     {"the audit chain"}},
    {"CredentialsKeepsItsFirstKey",
     &Mutants::credentials_keeps_first_key,
     {"rotated-out key", "is signed by"}},
    {"GrantsUnchecked", &Mutants::grants_unchecked, {"which was not placed on it"}},
    {"AgentKeepsIdentities", &Mutants::agent_keeps_identities, {"asks for a certificate of"}},
    {"ClusterManagerUncordonsAll",
     &Mutants::cluster_manager_uncordons_all,
     {"and its owner has not taken it back"}},
    {"ClusterManagerKeepsGoneNodes",
     &Mutants::cluster_manager_keeps_gone,
     {"there is a verdict on"}},
    {"TelemetryForgetsProducers",
     &Mutants::telemetry_forgets_producers,
     {"is in the Stream twice"}},
    {"TelemetryShowsUnstoredRecords",
     &Mutants::telemetry_shows_unstored,
     {"is delivered and not on disk"}},
    {"CursorActsFirst", &Mutants::cursor_acts_first, {"is acknowledged and not stored"}},
    {"ReplacedReadersAcknowledge",
     &Mutants::readers_not_fenced,
     {"the reader in charge did not ask"}},
    {"WindowActsFirst",
     &Mutants::window_acts_first,
     {"is not stored, and nobody has taken it back"}},
    {"SchedulerReadsItsClockLate",
     &Mutants::scheduler_reads_late,
     {"where a maintenance window does not let it be", "which stops what is there"}},
    {"LeaderForgetsOrders",
     &Mutants::leader_forgets_orders,
     // The last: an order that the leader has forgotten is never closed.
     {"which is kept for", "which does not wait for them", "not settled in time: order"}},
    {"LeaderForgetsRequests", &Mutants::leader_forgets_requests, {"makes two Jobs"}},
    {"LeaderForgetsLimitsOfQueues", &Mutants::leader_forgets_limits, {"and may have"}},
    {"LeaderWaitsForNobody", &Mutants::leader_waits_for_nobody, {"has ended as asked"}},
    {"SimulationSubmits",
     &Mutants::simulation_submits,
     {"a simulation of placement has changed something"}},
    {"InstanceNotRemoved", &Mutants::instance_not_removed, {"has instances"}},
    {"InstanceRemovedEarly", &Mutants::instance_removed_early, {"is removed under"}},
    {"InstanceMadeElsewhere", &Mutants::instance_made_elsewhere, {"and its placement says"}},
    {"FailedCommitTakenAsDone",
     &Mutants::failed_commit_taken,
     // The last: that a version is to leave is lost, and its content has left.
     {"not stored", "without being stored", "without a stored START", "not in the Stream",
      "is stored as whole, and is not at the Site"}},
};

class MutantsTest : public ::testing::TestWithParam<Planted> {};

TEST_P(MutantsTest, IsSeenByItsInvariant) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    ScenarioConfig config;
    config.seed = seed;
    config.mutants.*GetParam().mutant = true;
    const std::string seen = RunScenario(config).violation;
    if (seen.empty()) continue;
    std::cout << GetParam().name << ": seen by seed " << seed << ": " << seen << std::endl;
    for (const char* by : GetParam().seen_by) {
      if (absl::StrContains(seen, by)) return;
    }
    FAIL() << "seen by another invariant: " << seen;
  }
  FAIL() << "not seen within " << kSeeds << " seeds";
}

INSTANTIATE_TEST_SUITE_P(Planted, MutantsTest, ::testing::ValuesIn(kPlanted),
                         [](const ::testing::TestParamInfo<Planted>& planted) {
                           return std::string(planted.param.name);
                         });

}  // namespace
}  // namespace capstan::simulation
