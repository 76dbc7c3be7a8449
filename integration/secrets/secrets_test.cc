// Secrets of every kind go their ways on a whole platform, and are brought to where they do not
// belong; then everything that the platform has written, shown and left is looked through. Each
// secret is in its home and nowhere else.
#include <sys/resource.h>

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "integration/platform/test_platform.h"
#include "integration/secrets/exercise.h"
#include "integration/secrets/secret_scan.h"

namespace capstan::integration {
namespace {

class SecretsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (TestPlatform::Unable().has_value()) return;
    // Whatever starts below may leave cores, if it does not forbid them itself.
    getrlimit(RLIMIT_CORE, &before_);
    const rlimit any = {before_.rlim_max, before_.rlim_max};
    setrlimit(RLIMIT_CORE, &any);
    exercise_ = new Exercise();
    exercise_->Run();
  }
  static void TearDownTestSuite() {
    if (exercise_ == nullptr) return;
    delete exercise_;
    setrlimit(RLIMIT_CORE, &before_);
  }
  void SetUp() override {
    if (exercise_ == nullptr) GTEST_SKIP() << *TestPlatform::Unable();
    // A run that has looked at nothing does not pass.
    ASSERT_GT(exercise_->scan().places(), 300u);
  }

  static rlimit before_;
  static Exercise* exercise_;
};

rlimit SecretsTest::before_;
Exercise* SecretsTest::exercise_ = nullptr;

TEST_F(SecretsTest, NoSecretIsOutsideOfItsHome) {
  std::printf("%zu secrets, %zu places, %d MiB\n", exercise_->planted().size(),
              exercise_->scan().places(), static_cast<int>(exercise_->scan().bytes() >> 20));
  for (const Sighting& sighting : exercise_->scan().Sightings()) {
    // Answers to who sent it are many.
    if (sighting.at_home && !absl::StartsWith(sighting.place, "answer")) {
      std::printf("at home: %s: %s\n", sighting.secret.c_str(), sighting.place.c_str());
    }
  }
  EXPECT_GE(exercise_->planted().size(), 30u);
  EXPECT_EQ(exercise_->scan().Strays(), "");
}

// The other half of the proof: what is where it belongs was seen there, so the places were looked
// at and the secrets are the ones in use.
TEST_F(SecretsTest, WhatIsAtHomeIsSeenThere) {
  for (const std::string& part : Exercise::Parts()) {
    EXPECT_TRUE(exercise_->scan().Saw("key of " + part,
                                      absl::StrCat("files/data/", part, "/identity/svid.pem")))
        << part;
  }
  for (const auto& [secret, place] : std::vector<std::pair<std::string, std::string>>{
           {"key of person", "files/data/person/svid.pem"},
           {"key keeper's key", "files/data/credentials/key_keeper.key"},
           {"key keeper's key", "files/backup/*"},
           {"key of a Task", "files/data/node_agent/tasks/*"},
           {"a Job's variable", "files/data/scheduler/store.sqlite*"},
           {"a Job's variable", "environment of Task *"},
           {"a Job's variable", "cli job get *"},
           {"what a Task says", "files/data/telemetry/streams/*"},
           {"what a Task says", "cli job logs *"},
           {"typed into a Task", "cli job exec *"},
           // Labels are recorded, arguments and variables are not: that none was seen there means
           // something.
           {"a Job's label", "files/data/scheduler/recordings/*"}}) {
    EXPECT_TRUE(exercise_->scan().Saw(secret, place)) << secret << ": not in " << place;
  }
  for (const Sighting& sighting : exercise_->scan().Sightings()) {
    EXPECT_FALSE(absl::StartsWith(sighting.place, "files/backup-without-key") &&
                 sighting.secret == "key keeper's key")
        << sighting.place;
  }
}

TEST_F(SecretsTest, HomesAreClosedToOthers) { EXPECT_EQ(exercise_->scan().OpenHomes(), ""); }

TEST_F(SecretsTest, CrashesLeaveNoCores) {
  EXPECT_EQ(exercise_->cores_left(), "");
  EXPECT_GE(exercise_->core_limits().size(), Exercise::Parts().size() + 3);
  for (const std::string& limit : exercise_->core_limits()) {
    EXPECT_TRUE(absl::EndsWith(limit, ": 1 1") || absl::EndsWith(limit, ": 0 0")) << limit;
  }
}

}  // namespace
}  // namespace capstan::integration
