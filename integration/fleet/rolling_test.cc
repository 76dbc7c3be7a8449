// Every part of a platform is restarted, one after the other, while a person and many programs use
// it and a gang runs: as it is, and from one version to the next and back. The other version's programs are in the
// folder CAPSTAN_OLDER_SERVICES, which `./dev upgrade` builds; without it the same ones stand for
// them, so that the way is walked in every run of the tests.
#include <signal.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "integration/fleet/clients.h"
#include "integration/fleet/fleet.h"
#include "integration/fleet/person.h"
#include "integration/platform/test_platform.h"
#include "tools/capstan/cli/platform.h"

namespace capstan::integration {
namespace {

std::string OlderServices() {
  const char* folder = std::getenv("CAPSTAN_OLDER_SERVICES");
  return folder == nullptr ? Fleet::kOwnServices : folder;
}

class RollingTest : public ::testing::Test {
 protected:
  // Two of each service that may have two, a gang over two hosts, a person, and programs.
  void Begin(const std::string& services) {
    const auto unable = Fleet::Unable();
    if (unable.has_value()) GTEST_SKIP() << *unable;
    fleet_ = std::make_unique<Fleet>(Fleet::Options{
        .hosts = 2,
        .data_loaders = 2,
        .cluster_managers = 2,
        .services = services,
        .config = "fencing: {min_fence_after: 1s, replace_margin: 1s, suspect_after: 10s}\n"});
    ASSERT_TRUE(fleet_->Start());
    platform().Submit({.id = "calm",
                       .ranks = 2,
                       .steps = 1'000'000,
                       .checkpoint_every = 100,
                       .fence_after = absl::Seconds(60),
                       .slots = 2});
    ASSERT_TRUE(platform().Await([&] { return platform().Witnesses().Count("commit", 1) > 0; }));
    person_ = std::make_unique<Person>(&platform());
    clients_ = std::make_unique<Clients>(&platform());
  }

  TestPlatform& platform() { return fleet_->platform(); }

  // One part after the other, by the programs in `services`; then the hosts' agents, if asked.
  void Restart(const std::string& services, bool agents) {
    const auto endpoints = cli::ReadEndpoints(platform().data_dir());
    ASSERT_TRUE(endpoints.ok());
    for (const auto& [part, entry] : endpoints->parts()) {
      const Before before = Now();
      const auto former = platform().Part(part);
      ASSERT_TRUE(former.has_value()) << part;
      fleet_->Use(services, part);
      platform().Signal(part, SIGTERM);
      ASSERT_TRUE(platform().Await([&, part = part] {
        const auto now = platform().Part(part);
        return now.has_value() && now->pid != former->pid;
      })) << part;
      ASSERT_TRUE(platform().AwaitReady()) << part;
      AwaitUse(before);
      ++restarted_;
    }
    for (int host = 0; agents && host < 2; ++host) {
      const Before before = Now();
      fleet_->Use(services, "node_agent");
      fleet_->RestartAgent(host);
      AwaitUse(before);
      ++restarted_;
    }
  }

  // No command or call failed, each create took effect once, and the gang did not notice.
  void ExpectNothingLost() {
    clients_->FinishAndCheck();
    const std::vector<Person::Command> commands = person_->Finish();
    std::set<std::string> kinds;
    double longest = 0;
    for (const Person::Command& command : commands) {
      EXPECT_EQ(command.exit_code, 0) << command.name << ", " << person_->Errors();
      kinds.insert(command.name);
      longest = std::max(longest, command.seconds);
    }
    EXPECT_EQ(kinds.size(), static_cast<size_t>(Person::kKinds));
    std::printf("restarted %d parts under %zu commands: none failed, the longest took %.2f s\n",
                restarted_, commands.size(), longest);
    // A second one would have failed, and none is missing.
    const auto created = std::count_if(
        commands.begin(), commands.end(),
        [](const Person::Command& command) { return command.name == "queue-create"; });
    const std::string queues = platform().MustCapstan({"queue", "list", "-o", "name"});
    for (int i = 0; i < created; ++i) {
      EXPECT_NE(queues.find(absl::StrCat("q-", i, "\n")), std::string::npos) << i;
    }
    EXPECT_EQ(platform().Witnesses().last_generation(), 1) << "the gang did not notice";
    EXPECT_EQ(platform().Witnesses().Count("start", 1), 2);
    const int said = platform().Witnesses().Count("beat");
    EXPECT_TRUE(platform().Await([&] { return platform().Witnesses().Count("beat") > said; }));
    platform().MustCapstan({"job", "cancel", "calm"});
    EXPECT_EQ(absl::StrJoin(platform().Witnesses().Violations(), "\n"), "");
  }

 private:
  struct Before {
    int64_t commands = 0;
    int64_t rounds = 0;
  };
  Before Now() const { return {person_->Count(), clients_->Rounds()}; }
  // Of each kind of command one at least has begun and ended since, and of each program a round.
  void AwaitUse(const Before& before) {
    ASSERT_TRUE(platform().Await([&] {
      return person_->Count() >= before.commands + Person::kKinds &&
             clients_->Rounds() >= before.rounds + 2;
    }));
  }

  std::unique_ptr<Fleet> fleet_;
  std::unique_ptr<Person> person_;
  std::unique_ptr<Clients> clients_;
  int restarted_ = 0;
};

TEST_F(RollingTest, LosesNoCallThatABudgetOfRetriesCovers) {
  Begin(Fleet::kOwnServices);
  if (IsSkipped() || HasFatalFailure()) return;
  Restart(Fleet::kOwnServices, /*agents=*/false);
  ExpectNothingLost();
}

// Meanwhile parts of both versions serve together, also two replicas of one service.
TEST_F(RollingTest, FromOneVersionToTheNextAndBackLosesNone) {
  Begin(OlderServices());
  if (IsSkipped() || HasFatalFailure()) return;
  std::printf("older: %s\n", OlderServices().c_str());
  Restart(Fleet::kOwnServices, /*agents=*/true);
  if (HasFatalFailure()) return;
  Restart(OlderServices(), /*agents=*/true);
  ExpectNothingLost();
}

}  // namespace
}  // namespace capstan::integration
