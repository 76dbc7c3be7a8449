// Random lives of a core, recorded, decide the same again: here, and in a process in which hash
// tables have another order.
#include <spawn.h>
#include <sys/wait.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/safe_path/testing/temporary_folder.h"
#include "services/scheduler/core/random_world.h"
#include "services/scheduler/recorder/harness_recorder.h"
#include "services/scheduler/recorder/recording_file.h"
#include "services/scheduler/recorder/recording_folder.h"
#include "services/scheduler/recorder/replay.h"

namespace capstan::scheduler {
namespace {

constexpr int kGroups = 10;
constexpr int kSeedsPerGroup = 5;

constexpr char kProgram[] = "services/scheduler/recorder/replay_folder";

FlightRecorder::Options In(const std::string& folder) {
  FlightRecorder::Options options;
  options.folder = folder;
  return options;
}

// A life of many terms, recorded; the steps it took.
int64_t RecordWorld(uint64_t seed, const std::string& folder) {
  HarnessRecorder recorder(In(folder));
  recorder.set_config(RandomWorld::Config(seed));
  RandomWorld world(seed, recorder.Observer());
  world.Run();
  recorder.End();
  return recorder.steps();
}

Replayed ReplayFile(const std::string& path) {
  auto reader = RecordingReader::Open(path);
  EXPECT_TRUE(reader.ok()) << reader.status();
  auto replayed = Replay(reader->get(), {});
  EXPECT_TRUE(replayed.ok()) << replayed.status();
  EXPECT_FALSE((*reader)->damaged()) << (*reader)->end();
  return *replayed;
}

int ReplayInAnotherProcess(const std::string& folder) {
  std::string program = kProgram;
  std::string in = folder;
  std::string hash = absl::StrCat(absl::HashOf(std::string("seed")));
  char* const argv[] = {program.data(), in.data(), hash.data(), nullptr};
  char* const environment[] = {nullptr};
  pid_t child = 0;
  int status = 0;
  if (posix_spawn(&child, kProgram, nullptr, nullptr, argv, environment) != 0) return -1;
  if (waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

class ReplayWorldsTest : public ::testing::TestWithParam<int> {};

TEST_P(ReplayWorldsTest, AreIdenticalHereAndUnderAnotherHashSeed) {
  int64_t rounds = 0;
  for (int n = 0; n < kSeedsPerGroup; ++n) {
    const uint64_t seed = GetParam() * kSeedsPerGroup + n + 1;
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    const TemporaryFolder folder;
    const int64_t recorded = RecordWorld(seed, folder.path());
    int64_t steps = 0;
    const std::vector<RecordingFile> files = RecordingsIn(folder.path());
    for (const RecordingFile& file : files) {
      const Replayed replayed = ReplayFile(file.path);
      ASSERT_EQ(replayed.different_step, 0)
          << file.path << ": step " << replayed.different_step << " " << replayed.event << "\n"
          << replayed.difference;
      steps += replayed.steps;
      rounds += replayed.rounds;
    }
    ASSERT_EQ(steps, recorded);
    // Addresses are drawn anew for each process, and hashes depend on them.
    int code = 42;
    for (int i = 0; i < 10 && code == 42; ++i) code = ReplayInAnotherProcess(folder.path());
    ASSERT_EQ(code, 0);
  }
  EXPECT_GT(rounds, 100);
}

INSTANTIATE_TEST_SUITE_P(Seeds, ReplayWorldsTest, ::testing::Range(0, kGroups));

}  // namespace
}  // namespace capstan::scheduler
