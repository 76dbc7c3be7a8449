// A backup is taken while a gang runs, and restored under Tasks that go on running: the platform is
// what it was, speaks with a higher incarnation, and nothing runs twice in one generation. On both
// kinds of store.
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "integration/platform/store_config.h"
#include "integration/platform/test_platform.h"
#include "libs/safe_path/folder_names.h"
#include "libs/time/system_clock.h"
#include "tools/capstan/dev/process.h"
#include "tools/testenv/etcd_server.h"

namespace capstan::integration {
namespace {

using scheduler::v1::Job;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// `capstan help exit-codes`.
constexpr int kEndedBadly = 1;
constexpr int kInvalidInput = 3;
constexpr int kNotFound = 4;
constexpr int kConflict = 6;

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  // Unlike iterators, this does not throw where a process ends while it is read.
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

void WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream out(path, std::ios::binary);
  out << bytes;
}

// Whether a process with this command line runs on the machine.
bool Runs(const std::string& words) {
  for (const std::string& name : FolderNames("/proc")) {
    const std::string line = ReadFile(absl::StrCat("/proc/", name, "/cmdline"));
    if (absl::StrReplaceAll(line, {{std::string(1, '\0'), " "}}) == words + " ") return true;
  }
  return false;
}

enum class Kind { kSqlite, kEtcd };

class BackupTest : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    const auto unable = TestPlatform::Unable();
    if (unable.has_value()) GTEST_SKIP() << *unable;
    std::string config;
    if (GetParam() == Kind::kEtcd) {
      StartEtcd();
      ASSERT_NE(etcd_, nullptr);
      // One leads and one follows.
      config = absl::StrCat("schedulers: 2\n", StoreConfig(*etcd_));
    }
    platform_ = std::make_unique<TestPlatform>(config);
    platform_->Up();
    backup_ = platform_->folder() + "/backup";
  }
  void StartEtcd() {
    auto etcd = testenv::EtcdServer::Start({});
    ASSERT_TRUE(etcd.ok()) << etcd.status();
    etcd_ = *std::move(etcd);
  }

  void Submit(const std::string& id, const std::string& script) {
    const CommandResult result = platform_->SubmitText(
        id, absl::StrCat("job_id: ", id,
                         "\nspec:\n  task_groups:\n    - name: w\n      replicas: 1\n"
                         "      argv: [/bin/sh, -c, \"",
                         script, "\"]\n      resources: {cpu: 10m, memory: 32Mi}\n",
                         "  retry: {max_restarts: 1, initial_back_off: 0.1s}\n"));
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  }
  void AwaitState(const std::string& job, Job::State state) {
    EXPECT_TRUE(platform_->Await([&] { return platform_->Get(job).state() == state; })) << job;
  }
  CommandResult Restore(const std::string& from, std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"admin", "restore", "--from", from});
    return platform_->Capstan(more);
  }
  // What says in whose generation a Job's only Task ran, a line each.
  std::string RanFile(const std::string& job) const {
    return absl::StrCat(platform_->folder(), "/witness/", job);
  }
  std::vector<std::string> Ran(const std::string& job) const {
    return absl::StrSplit(ReadFile(RanFile(job)), '\n', absl::SkipEmpty());
  }
  std::string SayRan(const std::string& job) const {
    return absl::StrCat("echo $CAPSTAN_GENERATION >> ", RanFile(job));
  }

  std::unique_ptr<testenv::EtcdServer> etcd_;
  std::unique_ptr<TestPlatform> platform_;
  std::string backup_;
};

using TwoStoresTest = BackupTest;

TEST_P(TwoStoresTest, AnOlderBackupIsRestoredUnderRunningTasks) {
  constexpr int kRanks = 2;
  Submit("past", SayRan("past"));
  platform_->Submit({.id = "known", .ranks = kRanks, .steps = 600, .checkpoint_every = 100});
  const std::string may_end = platform_->folder() + "/witness/may_end";
  Submit("ended",
         absl::StrCat(SayRan("ended"), "; until [ -e ", may_end, " ]; do sleep 0.1; done"));
  platform_->MustSucceed("past");
  ASSERT_TRUE(platform_->Await(
      [&] { return platform_->Witnesses().Count("start") == kRanks && Ran("ended").size() == 1; }));
  AwaitState("ended", Job::STATE_RUNNING);
  AwaitState("known", Job::STATE_RUNNING);
  const auto known = platform_->FindTask("known", 1, 0);
  ASSERT_TRUE(known.has_value());

  const CommandResult backed_up = platform_->Capstan({"admin", "backup", "--out", backup_});
  EXPECT_EQ(backed_up.exit_code, 0) << backed_up.err;
  EXPECT_THAT(backed_up.err, AllOf(HasSubstr("scheduler: "), HasSubstr("credentials: ")));
  EXPECT_TRUE(dev::IsAlive(known->program)) << "through the backup";
  EXPECT_THAT(platform_->MustCapstan({"admin", "check", "--from", backup_}),
              HasSubstr("scheduler: sound"));
  EXPECT_THAT(platform_->MustCapstan({"admin", "check"}), HasSubstr("scheduler: sound"));
  EXPECT_EQ(platform_->Capstan({"admin", "backup", "--out", backup_}).exit_code, kConflict);

  // What the backup does not know: the end of one Job, the whole of another, a Project, and the
  // SVID that the owner gets anew.
  WriteFile(may_end, "");
  AwaitState("ended", Job::STATE_SUCCEEDED);
  Submit("unknown", "exec sleep 987654");
  platform_->MustCapstan({"project", "create", "late"});
  std::filesystem::remove_all(platform_->data_dir() + "/person");
  platform_->MustCapstan({"access", "whoami"});
  ASSERT_TRUE(platform_->Await([] { return Runs("sleep 987654"); }));
  EXPECT_THAT(Restore(backup_, {"--force"}).err, HasSubstr("running"));
  platform_->Down({"--keep-tasks"});
  EXPECT_TRUE(dev::IsAlive(known->program));
  EXPECT_TRUE(Runs("sleep 987654"));

  const CommandResult refused = Restore(backup_);
  EXPECT_EQ(refused.exit_code, kConflict);
  EXPECT_THAT(refused.err, HasSubstr("--force"));
  // Cut off right after it had begun: nothing starts until it is finished.
  WriteFile(platform_->data_dir() + "/restore.unfinished", backup_);
  const CommandResult half = platform_->Capstan({"dev", "up", "--detach"});
  EXPECT_NE(half.exit_code, 0);
  EXPECT_THAT(half.err, HasSubstr("admin restore"));
  const CommandResult restored = Restore(backup_);
  EXPECT_EQ(restored.exit_code, 0) << restored.err;
  EXPECT_TRUE(dev::IsAlive(known->program)) << "through the restore";

  platform_->Up();
  EXPECT_TRUE(platform_->Await([] { return !Runs("sleep 987654"); }))
      << "nobody knows it, so it is collected";
  EXPECT_EQ(platform_->Capstan({"job", "get", "unknown"}).exit_code, kNotFound);
  EXPECT_EQ(platform_->Capstan({"project", "get", "late"}).exit_code, kNotFound);
  platform_->MustCapstan({"access", "whoami"});
  const auto adopted = platform_->FindTask("known", 1, 0);
  ASSERT_TRUE(adopted.has_value());
  EXPECT_EQ(adopted->program.pid, known->program.pid);
  EXPECT_EQ(platform_->MustSucceed("known").generation(), 1);
  const WitnessLog log = platform_->Witnesses();
  EXPECT_EQ(log.Count("start"), kRanks);
  EXPECT_EQ(log.Count("end", 1), kRanks);
  EXPECT_EQ(absl::StrJoin(log.Violations(), "\n"), "");

  // What had ended before the backup stays so.
  EXPECT_EQ(platform_->Get("past").state(), Job::STATE_SUCCEEDED);
  EXPECT_EQ(Ran("past").size(), 1u);
  // The end that is forgotten is learned from the executor, which is asked for the Task again. Had
  // its Node removed the Task already, the Job would run once more; never as the same generation.
  platform_->MustSucceed("ended");
  const std::vector<std::string> ran = Ran("ended");
  EXPECT_LE(ran.size(), 2u);
  EXPECT_EQ(std::set<std::string>(ran.begin(), ran.end()).size(), ran.size());

  // A name that only the forgotten past had is free, and everything is sound.
  Submit("unknown", "true");
  platform_->MustSucceed("unknown");
  EXPECT_THAT(platform_->MustCapstan({"admin", "check"}),
              AllOf(HasSubstr("scheduler: sound"), HasSubstr("node_agent: sound")));
}

// Whenever a restore is killed, nothing starts on what is half of it, and doing it again is all
// that it takes.
TEST_P(TwoStoresTest, ARestoreMayBeKilledAtAnyTimeAndIsDoneAgain) {
  constexpr int kKills = 10;
  Submit("past", "true");
  platform_->MustSucceed("past");
  platform_->MustCapstan({"admin", "backup", "--out", backup_});
  Submit("later", "true");
  platform_->MustSucceed("later");
  platform_->Down();
  const SystemClock clock;
  const BootTime begun = clock.Read().boot;
  ASSERT_EQ(Restore(backup_, {"--force"}).exit_code, 0);
  absl::Duration whole = clock.Read().boot - begun;
  const std::string mark = platform_->data_dir() + "/restore.unfinished";
  int unfinished = 0;
  for (int kill = 1; kill <= kKills; ++kill) {
    dev::SpawnOptions spawn;
    spawn.argv = platform_->CommandLine({"admin", "restore", "--from", backup_, "--force"});
    spawn.environment = {"PATH=/usr/bin:/bin", "HOME=" + platform_->folder()};
    spawn.output_file = "/dev/null";
    auto child = dev::Child::Spawn(spawn);
    ASSERT_TRUE(child.ok()) << child.status();
    const BootTime spawned = clock.Read().boot;
    if (kill == 1) {
      // As soon as there is half of it, however fast this machine is now.
      while (!std::filesystem::exists(mark) &&
             !dev::WaitForEnd(child->id(), absl::Milliseconds(1))) {
      }
    } else if (dev::WaitForEnd(child->id(), whole * kill / (kKills + 1))) {
      whole = std::min(whole, clock.Read().boot - spawned);
    }
    dev::SignalProcess(child->id(), SIGKILL);
    waitpid(child->id().pid, nullptr, 0);
    if (!std::filesystem::exists(mark)) continue;
    ++unfinished;
    const CommandResult half = platform_->Capstan({"dev", "up", "--detach"});
    EXPECT_NE(half.exit_code, 0);
    EXPECT_THAT(half.err, HasSubstr("admin restore"));
  }
  std::printf("%d of %d kills came in the middle\n", unfinished, kKills);
  EXPECT_GT(unfinished, 0);
  const CommandResult restored = Restore(backup_, {"--force"});
  EXPECT_EQ(restored.exit_code, 0) << restored.err;
  platform_->Up();
  EXPECT_EQ(platform_->Get("past").state(), Job::STATE_SUCCEEDED);
  EXPECT_EQ(platform_->Capstan({"job", "get", "later"}).exit_code, kNotFound);
  EXPECT_THAT(platform_->MustCapstan({"admin", "check"}),
              AllOf(HasSubstr("scheduler: sound"), HasSubstr("credentials: sound")));
  Submit("after", "true");
  platform_->MustSucceed("after");
}

INSTANTIATE_TEST_SUITE_P(Stores, TwoStoresTest, ::testing::Values(Kind::kSqlite, Kind::kEtcd),
                         [](const auto& info) {
                           return std::string(info.param == Kind::kSqlite ? "Sqlite" : "Etcd");
                         });

TEST_P(BackupTest, ABackupBringsAPlatformBackInAnEmptyFolderAndInAnotherKindOfStore) {
  Submit("past", "true");
  platform_->MustSucceed("past");
  platform_->MustCapstan({"admin", "backup", "--out", backup_});
  platform_->Down();
  std::filesystem::remove_all(platform_->data_dir());

  const auto refused = [&](const std::string& file, const std::string& bytes, int exit_code,
                           const std::string& message) {
    const std::string path = absl::StrCat(backup_, "/", file);
    const std::string whole = ReadFile(path);
    WriteFile(path, bytes);
    const CommandResult restored = Restore(backup_, {"--force"});
    EXPECT_EQ(restored.exit_code, exit_code) << file;
    EXPECT_THAT(restored.err, HasSubstr(message)) << file;
    EXPECT_NE(platform_->Capstan({"admin", "check", "--from", backup_}).exit_code, 0) << file;
    WriteFile(path, whole);
  };
  const std::string stored = ReadFile(backup_ + "/stores/scheduler.backup");
  std::string altered = stored;
  altered[altered.size() - 5] ^= 1;
  refused("stores/scheduler.backup", altered, kInvalidInput, "torn or altered");
  refused("stores/scheduler.backup", stored.substr(0, stored.size() / 2), kInvalidInput,
          "torn or altered");
  refused("stores/scheduler.backup", ReadFile(backup_ + "/stores/credentials.backup"),
          kInvalidInput, "is not the file that backup.json speaks of");
  refused("backup.json", "{", kInvalidInput, "is no backup of a platform");
  EXPECT_EQ(platform_->Capstan({"admin", "check", "--from", backup_}).exit_code, 0);
  WriteFile(backup_ + "/stores/scheduler.backup", altered);
  EXPECT_EQ(platform_->Capstan({"admin", "check", "--from", backup_}).exit_code, kEndedBadly);
  WriteFile(backup_ + "/stores/scheduler.backup", stored);

  // From files to an etcd.
  StartEtcd();
  ASSERT_NE(etcd_, nullptr);
  WriteFile(platform_->config_file(),
            absl::StrCat(ReadFile(platform_->config_file()), StoreConfig(*etcd_)));
  const CommandResult restored = Restore(backup_, {"--config", platform_->config_file()});
  EXPECT_EQ(restored.exit_code, 0) << restored.err;
  platform_->Up();
  EXPECT_EQ(platform_->Get("past").state(), Job::STATE_SUCCEEDED);
  Submit("present", "true");
  platform_->MustSucceed("present");
  platform_->Down();
  const CommandResult again = Restore(backup_);
  EXPECT_EQ(again.exit_code, kConflict);
  EXPECT_THAT(again.err, AllOf(HasSubstr("etcd 127.0.0.1:"), HasSubstr("--force")));
}

// Streams are in no backup: where they lie, cursors go on; where they don't, their readers are
// told.
TEST_P(BackupTest, SubscriptionsComeBackAndSkipNothingInSilence) {
  Submit("talker", "for i in 1 2 3 4 5; do echo line $i; done");
  platform_->MustSucceed("talker");
  platform_->MustCapstan({"subscription", "create", "s", "talker"});
  const auto read = [&] {
    return platform_->MustCapstan({"subscription", "read", "s", "--no-commit"});
  };
  ASSERT_TRUE(platform_->Await([&] { return absl::StrContains(read(), "line 5"); }));
  const auto cursor = [&] {
    return platform_->MustCapstan(
        {"subscription", "get", "s", "-o", "jsonpath={.acknowledged_offset}"});
  };
  platform_->MustCapstan({"subscription", "commit", "s", "3"});
  const CommandResult backed_up = platform_->Capstan({"admin", "backup", "--out", backup_});
  EXPECT_EQ(backed_up.exit_code, 0) << backed_up.err;
  EXPECT_THAT(backed_up.err, AllOf(HasSubstr("telemetry: 1 subscriptions"),
                                   HasSubstr("telemetry: 0 archived Jobs")));
  for (const std::vector<std::string>& checked :
       {std::vector<std::string>{"admin", "check"},
        std::vector<std::string>{"admin", "check", "--from", backup_}}) {
    EXPECT_THAT(platform_->MustCapstan(checked),
                AllOf(HasSubstr("telemetry/subscriptions.sqlite: sound, 1 records"),
                      HasSubstr("telemetry/archive.sqlite: sound")));
  }

  // Beside its Stream the cursor that is there is the true one.
  platform_->MustCapstan({"subscription", "commit", "s", "4"});
  platform_->Down();
  const CommandResult in_place = Restore(backup_, {"--force"});
  EXPECT_EQ(in_place.exit_code, 0) << in_place.err;
  EXPECT_THAT(in_place.err, HasSubstr("kept the 1 subscriptions that are there"));
  platform_->Up();
  EXPECT_THAT(cursor(), HasSubstr("4"));
  EXPECT_THAT(read(), AllOf(HasSubstr("line 5"), Not(HasSubstr("line 4"))));

  platform_->Down();
  std::filesystem::remove_all(platform_->data_dir());
  const CommandResult elsewhere = Restore(backup_);
  EXPECT_EQ(elsewhere.exit_code, 0) << elsewhere.err;
  EXPECT_THAT(elsewhere.err, HasSubstr("telemetry: 1 subscriptions"));
  platform_->Up();
  EXPECT_THAT(cursor(), HasSubstr("3"));
  const CommandResult lost = platform_->Capstan({"subscription", "read", "s"});
  EXPECT_NE(lost.exit_code, 0);
  EXPECT_THAT(lost.err, HasSubstr("ended before it"));
  EXPECT_THAT(platform_->MustCapstan({"subscription", "get", "s"}), HasSubstr("Beyond end:"));
  platform_->MustCapstan({"subscription", "seek", "s", "--oldest"});
  platform_->MustCapstan({"subscription", "read", "s"});
}

INSTANTIATE_TEST_SUITE_P(Files, BackupTest, ::testing::Values(Kind::kSqlite));

}  // namespace
}  // namespace capstan::integration
