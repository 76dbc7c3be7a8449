// Tasks are strangers: what a Task may do on a real machine, and what it must not get at.
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "services/node_agent/adapters/intrusion.h"
#include "services/node_agent/adapters/isolation_probe.h"
#include "services/node_agent/adapters/process_bench.h"
#include "services/node_agent/adapters/task_folder.h"

namespace capstan::node_agent {
namespace {

using capstan::nodeagent::v1::ShimSpec;
using capstan::type::v1::TaskEnd;
using capstan::type::v1::TaskKey;

constexpr int64_t kVictimUid = 61234;
constexpr int64_t kIntruderUid = 61235;

void WriteFile(const std::string& path, const std::string& text, mode_t mode) {
  std::ofstream(path) << text;
  ASSERT_EQ(chmod(path.c_str(), mode), 0);
}

class TaskIsolationTest : public ::testing::Test {
 protected:
  void SetUp() override {
    bench_ = ProcessBench::Make();
    if (bench_ == nullptr) GTEST_SKIP() << "needs root";
    WriteFile(bench_->data_folder() + "/ca.key", "PRIVATE", 0600);
    WriteFile(bench_->data_folder() + "/scheduler.db", "STORE", 0600);
    // Folders of a real platform are passable down to the Tasks' own.
    chmod(bench_->data_folder().c_str(), 0711);
  }
  void TearDown() override {
    if (bench_ == nullptr) return;
    for (const TaskKey& key : made_) {
      bool removed = false;
      bench_->strand().Post([&] {
        bench_->runtime().Kill(key, [&](absl::Status) {
          bench_->runtime().Remove(key, [&](absl::Status status) {
            EXPECT_TRUE(status.ok()) << status;
            removed = true;
          });
        });
      });
      EXPECT_TRUE(bench_->RunUntil([&] { return removed; }));
    }
    bench_.reset();
  }

  static TaskKey Key(int index) {
    TaskKey key;
    key.set_job_uid(absl::StrCat("0b5a7f2e-0000-4000-8000-00000000000", index));
    key.set_generation(1);
    key.set_group("workers");
    key.set_index(index);
    return key;
  }

  ShimSpec Spec(int index, const std::string& script) {
    ShimSpec spec;
    *spec.mutable_key() = Key(index);
    spec.set_deadline_boottime_ns(
        (bench_->strand().clock().Read().boot + absl::Minutes(5)).ToNanoseconds());
    spec.set_log_limit_bytes(1 << 20);
    bench_->Script(script, &spec);
    return spec;
  }

  void Start(ShimSpec spec) {
    capstan::type::v1::Resources limits;
    limits.set_cpu_millis(250);
    limits.set_memory_bytes(128 << 20);
    made_.push_back(spec.key());
    const absl::Status started = bench_->Start(spec, limits);
    ASSERT_TRUE(started.ok()) << started;
  }

  TaskEnd Finish(int index) {
    EXPECT_TRUE(bench_->RunUntil([&] { return bench_->Status(Key(index)).has_end(); }));
    return bench_->Status(Key(index)).end();
  }

  std::vector<std::string> Lines(int index) { return LogLines(bench_->Folder(Key(index))); }

  std::vector<std::string> Output(const std::string& script) {
    Start(Spec(1, script));
    Finish(1);
    return Lines(1);
  }

  // Another Job's Task, which holds a secret and runs on.
  void StartVictim(bool namespaces) {
    ShimSpec spec = Spec(0, ": > /capstan/output/listens; exec sleep 1000");
    spec.add_env("VICTIM_SECRET=1");
    spec.set_unix_uid(kVictimUid);
    if (!namespaces) MakePlain(&spec);
    Start(spec);
    ASSERT_TRUE(bench_->RunUntil([&] { return bench_->ProgramPid(Key(0)) > 0; }));
    listener_ = ListenInTaskFolder(bench_->Folder(Key(0)));
  }

  static void MakePlain(ShimSpec* spec) {
    spec->set_namespaces(false);
    spec->clear_mounts();
    spec->clear_hidden_paths();
    const std::string script = absl::StrReplaceAll(spec->argv(2), {{"/capstan/output/", "/tmp/"}});
    spec->set_argv(2, script);
  }

  // Tries everything on the victim; returns what was tried and how it went.
  std::vector<std::string> Intrude(bool namespaces, int64_t uid) {
    StartVictim(namespaces);
    const pid_t victim = bench_->ProgramPid(Key(0));
    ShimSpec spec = Spec(1, "");
    spec.set_unix_uid(uid);
    if (!namespaces) MakePlain(&spec);
    spec.clear_argv();
    for (const char* word : {"/usr/bin/python3", "-c", kIntrusion}) spec.add_argv(word);
    spec.add_env(absl::StrCat("VICTIM_PID=", victim));
    spec.add_env(absl::StrCat("SHIM_PID=", bench_->Status(Key(0)).shim_pid()));
    spec.add_env(absl::StrCat("VICTIM_FOLDER=", bench_->Folder(Key(0))));
    spec.add_env(absl::StrCat("DATA=", bench_->data_folder()));
    Start(spec);
    EXPECT_EQ(Finish(1).cause(), TaskEnd::CAUSE_EXITED);
    return Lines(1);
  }

  void ExpectIntruderIsRefused(bool namespaces) {
    ExpectAllRefused(Intrude(namespaces, kIntruderUid));
    EXPECT_GT(bench_->ProgramPid(Key(0)), 0) << "the other Task runs on";
    EXPECT_FALSE(bench_->Status(Key(0)).has_end());
  }

  std::unique_ptr<ProcessBench> bench_;
  std::vector<TaskKey> made_;
  UniqueFd listener_;
};

TEST_F(TaskIsolationTest, AnotherJobsTaskIsRefusedEverything) { ExpectIntruderIsRefused(true); }

TEST_F(TaskIsolationTest, TheJobsUidAloneRefusesEverythingToo) { ExpectIntruderIsRefused(false); }

// Without either the attempts succeed: they would show a hole.
TEST_F(TaskIsolationTest, TheAttemptsThemselvesWork) {
  const auto lines = Intrude(false, kVictimUid);
  const std::set<std::string> found(lines.begin(), lines.end());
  for (const char* attempt :
       {"list the output", "write into the output", "connect to the socket", "read the environment",
        "find the environment", "peek into the memory", "see the root folder", "signal the task",
        "kill the task"}) {
    EXPECT_EQ(found.count(absl::StrCat(attempt, " allowed")), 1u) << attempt;
  }
}

TEST_F(TaskIsolationTest, TheEnvironmentIsExactlyWhatWasGiven) {
  ShimSpec spec = Spec(1, "");
  spec.clear_argv();
  spec.add_argv("/usr/bin/env");
  spec.clear_env();
  spec.add_env("ONE=1");
  spec.add_env("TWO=a b");
  Start(spec);
  Finish(1);
  EXPECT_EQ(Lines(1), (std::vector<std::string>{"ONE=1", "TWO=a b"}));
}

TEST_F(TaskIsolationTest, ItHasNoRightsAndNoWayToThem) {
  const auto lines = Output(
      "grep -E '^(Cap|NoNewPrivs|Groups|Uid|Gid)' /proc/self/status | tr -s '\\t ' ' '; ulimit -c");
  const std::set<std::string> found(lines.begin(), lines.end());
  for (const char* line :
       {"CapEff: 0000000000000000", "CapPrm: 0000000000000000", "CapBnd: 0000000000000000",
        "CapInh: 0000000000000000", "CapAmb: 0000000000000000", "NoNewPrivs: 1",
        "Groups: ", "Uid: 61234 61234 61234 61234", "Gid: 61234 61234 61234 61234", "0"}) {
    EXPECT_EQ(found.count(line), 1u) << line;
  }
}

TEST_F(TaskIsolationTest, NothingOfThePlatformIsInherited) {
  const auto lines = Output(
      "ls /proc/self/fd | wc -l; readlink /proc/self/fd/0; set -- /proc/[0-9]*; echo $#; "
      "ls -A /run | wc -l; ls -A /tmp | wc -l; "
      "ls -A /sys/fs/cgroup | wc -l; cat /proc/1/environ 2>&1");
  // ls has its folder open as a fourth; init and the shell are all there is when the shell looks.
  const std::vector<std::string> expected = {
      "4", "/dev/null", "2", "0", "0", "0", "cat: /proc/1/environ: Permission denied"};
  EXPECT_EQ(lines, expected);
}

TEST_F(TaskIsolationTest, ItMayWriteWhereTheContractSaysAndNowhereElse) {
  const auto lines = Output(
      "for f in /tmp /var/tmp /dev/shm /capstan/output / /usr /etc /var /run /dev /home; do "
      "if touch $f/x 2>/dev/null; then echo $f yes; else echo $f no; fi; done");
  EXPECT_EQ(lines, (std::vector<std::string>{"/tmp yes", "/var/tmp yes", "/dev/shm yes",
                                             "/capstan/output yes", "/ no", "/usr no", "/etc no",
                                             "/var no", "/run no", "/dev no", "/home no"}));
  EXPECT_EQ(access((bench_->Folder(Key(1)) + "/output/x").c_str(), F_OK), 0);
}

TEST_F(TaskIsolationTest, MountsAreReadOnlyWhereSaidAndMadeWhereAbsent) {
  const std::string source = bench_->data_folder() + "/dataset";
  ASSERT_EQ(mkdir(source.c_str(), 0777), 0);
  chmod(source.c_str(), 0777);
  WriteFile(source + "/part", "bytes", 0644);
  ShimSpec spec =
      Spec(1, "cat /data/digits/part; echo; touch /data/digits/x 2>/dev/null || echo read-only");
  ShimSpec::Mount* mount = spec.add_mounts();
  mount->set_source(source);
  mount->set_target("/data/digits");
  mount->set_read_only(true);
  Start(spec);
  Finish(1);
  const auto lines = Lines(1);
  EXPECT_EQ(lines, (std::vector<std::string>{"bytes", "read-only"}));
  EXPECT_NE(access("/data/digits", F_OK), 0) << "the machine itself is left alone";
}

TEST_F(TaskIsolationTest, TargetsMayLieBelowFoldersThatAreShutToTheTask) {
  // As when root's platform keeps its data below root's home.
  const std::string shut = bench_->data_folder() + "-shut";
  ASSERT_EQ(mkdir(shut.c_str(), 0700), 0);
  ASSERT_EQ(mkdir((shut + "/data").c_str(), 0700), 0);
  WriteFile(shut + "/data/ca.key", "PRIVATE", 0644);
  ShimSpec spec = Spec(1, absl::StrCat("echo in > x; pwd; cat ", shut, "/data/ca.key || ls ", shut,
                                       "/data; touch ", shut, "/y ", shut, "/data/y || echo no"));
  spec.add_hidden_paths(shut + "/data");
  for (const char* name : {"work", "second"}) {
    ShimSpec::Mount* mount = spec.add_mounts();
    mount->set_source(bench_->Folder(Key(1)) + "/work");
    mount->set_target(absl::StrCat(shut, "/data/tasks/", name));
  }
  spec.set_working_directory(shut + "/data/tasks/work");
  Start(spec);
  const TaskEnd end = Finish(1);
  EXPECT_EQ(end.cause(), TaskEnd::CAUSE_EXITED) << end.message();
  std::vector<std::string> lines = Lines(1);
  std::erase_if(lines, [](const std::string& line) {
    return absl::StrContains(line, "cannot") || absl::StrContains(line, "cat:");
  });
  EXPECT_EQ(lines, (std::vector<std::string>{shut + "/data/tasks/work", "tasks", "no"}));
  EXPECT_EQ(access((bench_->Folder(Key(1)) + "/work/x").c_str(), F_OK), 0);
  EXPECT_TRUE(EmptyTrash(shut).ok());
  rmdir(shut.c_str());
}

TEST_F(TaskIsolationTest, AMountThatCannotBeMadeSaysWhy) {
  ShimSpec spec = Spec(1, "true");
  ShimSpec::Mount* mount = spec.add_mounts();
  mount->set_source("/nonexistent/dataset");
  mount->set_target("/data");
  Start(spec);
  const TaskEnd end = Finish(1);
  EXPECT_EQ(end.cause(), TaskEnd::CAUSE_EXEC_FAILED);
  EXPECT_NE(end.message().find("/nonexistent/dataset"), std::string::npos) << end.message();
}

TEST_F(TaskIsolationTest, ItCannotEndItsInit) {
  EXPECT_EQ(
      Output("kill -9 1; kill -STOP 1; sleep 0.1; echo alive; kill -TERM 1; sleep 100; echo on"),
      std::vector<std::string>{"alive"});
  // SIGTERM is passed on to the program's group, as if the platform had sent it.
  EXPECT_EQ(bench_->Status(Key(1)).end().signal(), SIGTERM);
}

TEST_F(TaskIsolationTest, AnOrphanInASessionOfItsOwnDiesWithTheTask) {
  Start(Spec(1, "setsid sleep 1000 & setsid setsid sleep 1000 & sleep 0.1; exit 0"));
  const TaskEnd end = Finish(1);
  EXPECT_EQ(end.cause(), TaskEnd::CAUSE_EXITED);
  EXPECT_EQ(end.exit_code(), 0);
  EXPECT_FALSE(bench_->TaskLives(Key(1))) << "told only once nothing is left";
}

TEST_F(TaskIsolationTest, WithoutNamespacesAnOrphanDiesByTheCgroup) {
  ShimSpec spec = Spec(1, "setsid sleep 1000 & sleep 0.1; exit 0");
  MakePlain(&spec);
  Start(spec);
  EXPECT_EQ(Finish(1).cause(), TaskEnd::CAUSE_EXITED);
  EXPECT_FALSE(bench_->TaskLives(Key(1)));
}

TEST_F(TaskIsolationTest, PassingTheMemoryLimitIsToldAsSuch) {
  ShimSpec spec = Spec(1, "exec /usr/bin/python3 -c 'x = bytearray(1 << 29)'");
  Start(spec);
  const TaskEnd end = Finish(1);
  EXPECT_EQ(end.cause(), TaskEnd::CAUSE_OUT_OF_MEMORY) << end.DebugString();
}

TEST_F(TaskIsolationTest, FilesInMemoryCountAgainstTheLimit) {
  Start(Spec(1, "exec head -c 600000000 /dev/zero > /dev/shm/big"));
  EXPECT_EQ(Finish(1).cause(), TaskEnd::CAUSE_OUT_OF_MEMORY);
}

TEST_F(TaskIsolationTest, ItIsNeverRunAsRoot) {
  ShimSpec spec = Spec(1, "id");
  spec.set_unix_uid(0);
  Start(spec);
  EXPECT_TRUE(bench_->RunUntil([&] {
    std::ifstream errors(bench_->Folder(Key(1)) + "/shim.err");
    std::string text;
    std::getline(errors, text);
    return text.find("Unix uid") != std::string::npos;
  }));
  EXPECT_FALSE(bench_->TaskLives(Key(1)));
}

TEST(IsolationProbeTest, FindsWhatThisMachineCanDo) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  const absl::StatusOr<cgroup::Tree> none = cgroup::Tree::Open("unused", "/dev/null");
  ASSERT_TRUE(none.ok());
  const std::string scratch = absl::StrCat(getenv("TEST_TMPDIR"), "/probe");
  const auto probed = ProbeIsolation({"services/node_agent/shim/shim"}, scratch, *none);
  ASSERT_TRUE(probed.ok()) << probed.status();
  EXPECT_TRUE(probed->isolation.namespaces) << probed->reason;
  EXPECT_FALSE(probed->isolation.user_namespace);
  EXPECT_EQ(probed->limitations,
            (std::vector<capstan::type::v1::NodeObservation::Limitation>{
                capstan::type::v1::NodeObservation::LIMITATION_LIMITS_NOT_ENFORCED}));
  EXPECT_FALSE(ProbeIsolation({"/bin/false"}, scratch, *none).ok());
}

}  // namespace
}  // namespace capstan::node_agent
