// A backup is taken while a gang runs, and restored under Tasks that go on running: the platform is
// what it was, speaks with a higher incarnation, and nothing runs twice in one generation.
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "integration/platform/test_platform.h"
#include "libs/safe_path/folder_names.h"
#include "tools/capstan/dev/process.h"

namespace capstan::integration {
namespace {

using scheduler::v1::Job;
using ::testing::AllOf;
using ::testing::HasSubstr;

// `capstan help exit-codes`.
constexpr int kEndedBadly = 1;
constexpr int kConflict = 6;

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
}

// Whether a process with this command line runs on the machine.
bool Runs(const std::string& words) {
  for (const std::string& name : FolderNames("/proc")) {
    const std::string line = ReadFile(absl::StrCat("/proc/", name, "/cmdline"));
    if (absl::StrReplaceAll(line, {{std::string(1, '\0'), " "}}) == words + " ") return true;
  }
  return false;
}

class BackupTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto unable = TestPlatform::Unable();
    if (unable.has_value()) GTEST_SKIP() << *unable;
    platform_ = std::make_unique<TestPlatform>();
    platform_->Up();
  }

  void Submit(const std::string& id, const std::string& script) {
    const CommandResult result = platform_->SubmitText(
        id, absl::StrCat("job_id: ", id,
                         "\nspec:\n  task_groups:\n    - name: w\n      replicas: 1\n"
                         "      argv: [/bin/sh, -c, \"",
                         script, "\"]\n      resources: {cpu: 10m, memory: 32Mi}\n",
                         "  retry: {max_restarts: 0}\n"));
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  }
  void AwaitState(const std::string& job, Job::State state) {
    EXPECT_TRUE(platform_->Await([&] { return platform_->Get(job).state() == state; })) << job;
  }

  std::unique_ptr<TestPlatform> platform_;
};

TEST_F(BackupTest, AnOlderBackupIsRestoredUnderRunningTasks) {
  constexpr int kRanks = 2;
  const std::string backup = platform_->folder() + "/backup";
  const std::string generations = platform_->folder() + "/witness/generations";
  platform_->Submit({.id = "known", .ranks = kRanks, .steps = 1000, .checkpoint_every = 50});
  Submit("ended", absl::StrCat("echo $CAPSTAN_GENERATION >> ", generations, "; sleep 4"));
  ASSERT_TRUE(platform_->Await([&] {
    return platform_->Witnesses().Count("start") == kRanks && !ReadFile(generations).empty();
  }));
  AwaitState("ended", Job::STATE_RUNNING);
  AwaitState("known", Job::STATE_RUNNING);
  const auto known = platform_->FindTask("known", 1, 0);
  ASSERT_TRUE(known.has_value());

  const CommandResult backed_up = platform_->Capstan({"admin", "backup", "--out", backup});
  EXPECT_EQ(backed_up.exit_code, 0) << backed_up.err;
  EXPECT_THAT(backed_up.err, AllOf(HasSubstr("scheduler: "), HasSubstr("credentials: ")));
  EXPECT_THAT(platform_->MustCapstan({"admin", "check", "--from", backup}),
              HasSubstr("scheduler: sound"));
  EXPECT_EQ(platform_->Capstan({"admin", "backup", "--out", backup}).exit_code, kConflict);

  // What the backup does not know: the end of one Job, the whole of another.
  AwaitState("ended", Job::STATE_SUCCEEDED);
  Submit("unknown", "exec sleep 987654");
  ASSERT_TRUE(platform_->Await([] { return Runs("sleep 987654"); }));
  EXPECT_THAT(platform_->Capstan({"admin", "restore", "--from", backup, "--force"}).err,
              HasSubstr("running"));
  platform_->Down({"--keep-tasks"});
  EXPECT_TRUE(dev::IsAlive(known->program));
  EXPECT_TRUE(Runs("sleep 987654"));

  const CommandResult refused = platform_->Capstan({"admin", "restore", "--from", backup});
  EXPECT_EQ(refused.exit_code, kConflict);
  EXPECT_THAT(refused.err, HasSubstr("--force"));
  // Cut off right after it had begun: nothing starts until it is finished.
  const std::string mark = platform_->data_dir() + "/restore.unfinished";
  std::ofstream(mark) << backup;
  const CommandResult half = platform_->Capstan({"dev", "up", "--detach"});
  EXPECT_NE(half.exit_code, 0);
  EXPECT_THAT(half.err, HasSubstr("admin restore"));
  const CommandResult restored = platform_->Capstan({"admin", "restore", "--from", backup});
  EXPECT_EQ(restored.exit_code, 0) << restored.err;
  EXPECT_TRUE(dev::IsAlive(known->program));

  platform_->Up();
  EXPECT_TRUE(platform_->Await([] { return !Runs("sleep 987654"); }))
      << "nobody knows it, so it is collected";
  EXPECT_NE(platform_->Capstan({"job", "get", "unknown"}).exit_code, 0);
  EXPECT_TRUE(dev::IsAlive(known->program)) << "it has been adopted";
  EXPECT_EQ(platform_->MustSucceed("known").generation(), 1);
  const WitnessLog log = platform_->Witnesses();
  EXPECT_EQ(log.Count("start"), kRanks);
  EXPECT_EQ(log.Count("end", 1), kRanks);
  EXPECT_EQ(absl::StrJoin(log.Violations(), "\n"), "");

  // Its end is forgotten, so it runs again; but never again as the same generation.
  platform_->MustSucceed("ended");
  const std::vector<std::string> ran =
      absl::StrSplit(ReadFile(generations), '\n', absl::SkipEmpty());
  EXPECT_EQ(ran.size(), 2u);
  EXPECT_EQ(std::set<std::string>(ran.begin(), ran.end()).size(), ran.size())
      << ReadFile(generations);

  // A name that only the forgotten past had is free, and everything is sound.
  Submit("unknown", "true");
  platform_->MustSucceed("unknown");
  EXPECT_THAT(platform_->MustCapstan({"admin", "check"}),
              AllOf(HasSubstr("scheduler: sound"), HasSubstr("node_agent: sound")));
}

TEST_F(BackupTest, ABackupBringsAPlatformBackInAnEmptyFolder) {
  const std::string backup = platform_->folder() + "/backup";
  Submit("past", "true");
  platform_->MustSucceed("past");
  platform_->MustCapstan({"admin", "backup", "--out", backup});
  const std::string altered = platform_->folder() + "/altered";
  platform_->Down();
  ASSERT_EQ(
      std::system(absl::StrCat("cp -r ", backup, " ", altered, " && rm -r ", platform_->data_dir())
                      .c_str()),
      0);
  const std::string file = altered + "/stores/scheduler.backup";
  std::string bytes = ReadFile(file);
  bytes[bytes.size() - 5] ^= 1;
  std::ofstream(file, std::ios::binary) << bytes;
  EXPECT_EQ(platform_->Capstan({"admin", "check", "--from", altered}).exit_code, kEndedBadly);
  const CommandResult refused = platform_->Capstan({"admin", "restore", "--from", altered});
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_THAT(refused.err, HasSubstr("torn or altered"));

  platform_->MustCapstan({"admin", "restore", "--from", backup});
  platform_->Up();
  EXPECT_EQ(platform_->Get("past").state(), Job::STATE_SUCCEEDED);
  Submit("present", "true");
  platform_->MustSucceed("present");
}

}  // namespace
}  // namespace capstan::integration
