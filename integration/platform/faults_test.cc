// Ranks and parts are killed and stopped in mid-job; what is true is read from the witnesses alone.
#include <signal.h>

#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "integration/platform/test_platform.h"
#include "tools/capstan/dev/parts.h"

namespace capstan::integration {
namespace {

class FaultsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto unable = TestPlatform::Unable();
    if (unable.has_value()) GTEST_SKIP() << *unable;
    platform_ =
        std::make_unique<TestPlatform>("fencing: {min_fence_after: 1s, replace_margin: 1s}");
    platform_->Up();
  }

  // The first generation of which every rank has been started; 0 if there is none in time.
  int64_t AwaitStarts(const std::string& job, int ranks) {
    int64_t generation = 0;
    const bool started = platform_->Await([&] {
      const WitnessLog log = platform_->Witnesses();
      generation = log.last_generation();
      return generation > 0 && log.Count("start", generation) == ranks;
    });
    if (started) return generation;
    ADD_FAILURE() << platform_->Capstan({"job", "explain", job}).out
                  << platform_->Capstan({"job", "events", job}).out;
    return 0;
  }
  bool AwaitCommit(int64_t generation) {
    return platform_->Await([&] { return platform_->Witnesses().Count("commit", generation) > 0; });
  }
  // Host pids of the programs, by rank.
  std::map<int, pid_t> Pids(const std::string& job, int64_t generation, int ranks) {
    std::map<int, pid_t> pids;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto task = platform_->FindTask(job, generation, rank);
      if (task.has_value()) pids[rank] = task->program.pid;
    }
    return pids;
  }
  void ExpectNoViolation() {
    EXPECT_EQ(absl::StrJoin(platform_->Witnesses().Violations(), "\n"), "");
  }

  std::unique_ptr<TestPlatform> platform_;
};

TEST_F(FaultsTest, AKilledRankRestartsItsGangWhereItsCheckpointWas) {
  constexpr int kRanks = 4;
  platform_->Submit(
      {.id = "killed", .ranks = kRanks, .steps = 80, .checkpoint_every = 10, .orphan = true});
  ASSERT_EQ(AwaitStarts("killed", kRanks), 1);
  ASSERT_TRUE(AwaitCommit(1));
  const auto victim = platform_->FindTask("killed", 1, 2);
  ASSERT_TRUE(victim.has_value());
  dev::SignalProcess(victim->program, SIGKILL);
  const auto job = platform_->MustSucceed("killed");
  EXPECT_EQ(job.generation(), 2);
  const WitnessLog log = platform_->Witnesses();
  EXPECT_EQ(log.last_generation(), 2);
  EXPECT_EQ(log.Count("start", 2), kRanks);
  EXPECT_EQ(log.Count("end", 2), kRanks);
  EXPECT_GT(log.Count("orphan", 1, 2), 0) << "the orphan has lived, and its death is judged too";
  EXPECT_GT(log.lives().at({2, 0}).first_step, 1);
  ExpectNoViolation();
}

TEST_F(FaultsTest, AKilledShimTakesItsTaskAndTheGangRestarts) {
  platform_->Submit(
      {.id = "shim", .ranks = 2, .steps = 60, .checkpoint_every = 10, .orphan = true});
  ASSERT_TRUE(AwaitCommit(1));
  const auto victim = platform_->FindTask("shim", 1, 1);
  ASSERT_TRUE(victim.has_value());
  dev::SignalProcess(victim->shim, SIGKILL);
  EXPECT_TRUE(dev::WaitForEnd(victim->program, absl::Seconds(10)));
  EXPECT_EQ(platform_->MustSucceed("shim").generation(), 2);
  ExpectNoViolation();
}

TEST_F(FaultsTest, TheJobFinishesWhateverPartIsKilled) {
  constexpr int kRanks = 2;
  platform_->Submit({.id = "steady", .ranks = kRanks, .steps = 500, .checkpoint_every = 20});
  ASSERT_EQ(AwaitStarts("steady", kRanks), 1);
  const std::map<int, pid_t> pids = Pids("steady", 1, kRanks);
  ASSERT_EQ(pids.size(), 2u);
  for (const dev::PartSpec& part : dev::AllParts()) {
    SCOPED_TRACE(part.name);
    platform_->KillAndAwait(part.name);
    EXPECT_EQ(Pids("steady", 1, kRanks), pids);
  }
  EXPECT_TRUE(platform_->AwaitReady());

  // All at once.
  std::map<std::string, dev::ProcessId> before;
  for (const dev::PartSpec& part : dev::AllParts()) before[part.name] = *platform_->Part(part.name);
  for (const auto& [name, process] : before) dev::SignalProcess(process, SIGKILL);
  for (const auto& [name, process] : before) {
    EXPECT_TRUE(platform_->Await([&, name = name, old = process.pid] {
      const auto now = platform_->Part(name);
      return now.has_value() && now->pid != old;
    })) << name;
  }
  EXPECT_TRUE(platform_->AwaitReady());
  EXPECT_EQ(Pids("steady", 1, kRanks), pids);

  // And the supervisor with them, as a power cut of the platform alone would.
  platform_->Signal("supervisor", SIGKILL);
  for (const dev::PartSpec& part : dev::AllParts()) platform_->Signal(part.name, SIGKILL);
  platform_->Up();
  EXPECT_EQ(Pids("steady", 1, kRanks), pids);

  EXPECT_EQ(platform_->MustSucceed("steady").generation(), 1);
  const WitnessLog log = platform_->Witnesses();
  EXPECT_EQ(log.Count("start"), kRanks);
  EXPECT_EQ(log.Count("end", 1), kRanks);
  ExpectNoViolation();
  // Every line that the Tasks wrote, once and in order.
  const std::string logs =
      platform_->MustCapstan({"job", "logs", "steady", "--follow", "--rank", "1"});
  int64_t line = 0;
  size_t at = 0;
  while ((at = logs.find("step ", at)) != std::string::npos) {
    at += 5;
    EXPECT_EQ(atoll(logs.c_str() + at), ++line);
    if (HasFailure()) break;
  }
  EXPECT_EQ(line, 500);
}

// A part is stopped for longer than fence_after.
class FenceTest : public FaultsTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(FenceTest, TasksEndFirstAndRunAgainOnceItContinues) {
  constexpr int kRanks = 2;
  const std::string part = GetParam();
  platform_->Submit({.id = "fenced",
                     .ranks = kRanks,
                     .steps = 120,
                     .checkpoint_every = 10,
                     .orphan = true,
                     .fence_after = absl::Seconds(2)});
  // With so short a deadline a busy machine may lose a generation before it has come to anything.
  int64_t generation = 0;
  ASSERT_TRUE(platform_->Await([&] {
    generation = platform_->Witnesses().last_generation();
    return generation > 0 && platform_->Witnesses().Count("commit", generation) > 0;
  })) << platform_->MustCapstan({"job", "events", "fenced"});
  if (generation > 1)
    std::printf("%s", platform_->MustCapstan({"job", "events", "fenced"}).c_str());
  std::vector<TaskProcesses> tasks;
  for (int rank = 0; rank < kRanks; ++rank) {
    const auto task = platform_->FindTask("fenced", generation, rank);
    ASSERT_TRUE(task.has_value());
    tasks.push_back(*task);
  }
  const auto stopped = part == "shim" ? absl::make_optional(tasks[1].shim) : platform_->Part(part);
  ASSERT_TRUE(stopped.has_value());
  dev::SignalProcess(*stopped, SIGSTOP);
  // While it is still stopped.
  for (const TaskProcesses& task : tasks) {
    EXPECT_TRUE(dev::WaitForEnd(task.program, absl::Seconds(15)));
  }
  dev::SignalProcess(*stopped, SIGCONT);
  const auto job = platform_->MustSucceed("fenced");
  EXPECT_GT(job.generation(), generation);
  const WitnessLog log = platform_->Witnesses();
  EXPECT_EQ(log.Count("end", job.generation()), kRanks);
  EXPECT_GT(log.lives().at({job.generation(), 0}).first_step, 1);
  ExpectNoViolation();
}

INSTANTIATE_TEST_SUITE_P(Parts, FenceTest, ::testing::Values("executor", "node_agent", "shim"),
                         [](const auto& param) { return std::string(param.param); });

}  // namespace
}  // namespace capstan::integration
