// From one version to the next and back, under a gang that runs through both: what one version has
// stored the other one reads, Tasks and their shims are taken over by the other's agent, and
// nothing runs twice. The other version's program is CAPSTAN_OLDER_PROGRAM, which `./dev upgrade`
// builds; without it the same one stands for it, so that the way is walked in every run of the
// tests.
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"
#include "integration/platform/test_platform.h"
#include "libs/auth/join.h"
#include "libs/auth/join_token.h"
#include "libs/time/system_clock.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "proto/capstan/scheduler/v1/queue.pb.h"
#include "proto/capstan/telemetry/v1/subscription.pb.h"
#include "proto/capstan/type/v1/task.pb.h"
#include "tools/capstan/cli/platform.h"
#include "tools/capstan/dev/process.h"

namespace capstan::integration {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kRanks = 2;
constexpr int kSteps = 1600;
constexpr char kOwn[] = "tools/capstan/capstan";

std::string OlderProgram() {
  const char* program = std::getenv("CAPSTAN_OLDER_PROGRAM");
  return program == nullptr ? kOwn : program;
}

class UpgradeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto unable = TestPlatform::Unable();
    if (unable.has_value()) GTEST_SKIP() << *unable;
    // Ended Jobs are in the archive after some seconds.
    platform_ = std::make_unique<TestPlatform>("ended_jobs: {in_scheduler: {keep_for: 3s}}\n",
                                               OlderProgram());
    std::printf("older: %s\n", OlderProgram().c_str());
    platform_->Up();
  }

  // Something in every store, made by the version that runs.
  void Make(const std::string& by) {
    platform_->MustCapstan({"project", "create", by});
    platform_->MustCapstan({"role", "bind", "4001", "researcher", "--project", by});
    platform_->MustCapstan({"queue", "create", by, "--weight", "3", "--borrowing-limit", "cpu=500",
                            "--min-runtime", "7m", "--submit-rate", "500/1m", "--disruption-budget",
                            "3/24h"});
    platform_->MustCapstan({"access", "deny", "--serial", by == "older" ? "0b0b" : "0c0c",
                            "--reason", "made for a test"});
    const std::string bucket = absl::StrCat(platform_->data_dir(), "/buckets/", by);
    platform_->MustCapstan({"dataset", "create", by, "--source", Bucket(bucket, by)});
    platform_->MustCapstan({"load", "start", by, "--watch"});
    const CommandResult submitted = platform_->SubmitText(
        by, absl::StrCat("job_id: ", by, "\nspec:\n  time_limit: 2h\n  queue: ", by,
                         "\n  task_groups:\n    - name: w\n      replicas: 1\n"
                         "      argv: [/bin/sh, -c, \"cat $CAPSTAN_DATASET_IN/words; echo ",
                         by,
                         " > $CAPSTAN_OUTPUT_DIR/by\"]\n"
                         "      resources: {cpu: 10m, memory: 32Mi}\n"
                         "  datasets:\n    - {dataset: ",
                         by, ", alias: in}\n  output: true\n"));
    ASSERT_EQ(submitted.exit_code, 0) << submitted.out << submitted.err;
    platform_->MustSucceed(by);
    platform_->MustCapstan({"subscription", "create", by, by});
    EXPECT_THAT(platform_->MustCapstan({"subscription", "read", by}), HasSubstr(by));
    EXPECT_TRUE(platform_->Await([&] { return IsArchived(by); }));
    MakeWaiting(by);
    MakeRunning(by);
    // Far enough off for all that has a time_limit.
    platform_->MustCapstan({"node", "maintenance", "create", by, "--all-nodes", "--start", "300h",
                            "--for", "7h", "--reason", "made for a test"});
    platform_->MustCapstan({"node", "order", "create", by, "--nodes", "3", "--job",
                            absl::StrCat("large-", by), "--expires-in", "100h", "--reason",
                            "made for a test"});
    for (const char* kind : {"maintenance", "order"}) {
      EXPECT_THAT(platform_->MustCapstan({"node", kind, "list", "-o", "json"}),
                  HasSubstr("made for a test"));
    }
    tokens_[by] =
        platform_->MustCapstan({"access", "join-token", "/node/local/of-" + by, "--ttl", "1h"});
    made_.push_back(by);
  }

  // What the version that comes after finds undecided: Jobs that wait for others, one by one and as
  // an array, with a Bundle that is not on the Node yet, and one that nothing has room for.
  void MakeWaiting(const std::string& by) {
    MustSubmit(absl::StrCat("gate-", by), "",
               {.script = absl::StrCat("until [ -e ", Opened(by), " ]; do sleep 0.1; done")});
    const std::string bundle = absl::StrCat(platform_->folder(), "/bundle-", by);
    ASSERT_EQ(mkdir(bundle.c_str(), 0755), 0);
    std::ofstream(bundle + "/say.sh") << "echo out of the bundle of " << by << "\n";
    MustSubmit(absl::StrCat("after-", by),
               absl::StrCat("  bundle: ", bundle, "\n  after:\n    - {job: gate-", by, "}\n"),
               {.script = ". ./say.sh"});
    MustSubmit(
        absl::StrCat("sweep-", by),
        absl::StrCat("  array: {size: 3, max_parallel: 2}\n  after:\n    - {job: gate-", by, "}\n"),
        {.script = "echo element $CAPSTAN_ARRAY_INDEX of $CAPSTAN_ARRAY_SIZE"});
    MustSubmit(absl::StrCat("large-", by), "", {.script = "true", .cpu = "1000"});
  }

  // What runs through: a Job with less than it may have, and one of two sections.
  void MakeRunning(const std::string& by) {
    const std::string elastic = absl::StrCat("elastic-", by);
    MustSubmit(elastic, "",
               {.script = "sleep 3600", .replicas = 2, .more = "      min_replicas: 1\n"});
    const std::string parts = absl::StrCat("parts-", by);
    std::string text = absl::StrCat(
        "job_id: ", parts,
        "\nspec:\n  time_limit: 2h\n  min_sections: 1\n  sections:\n    - {name: first}\n"
        "    - {name: second}\n  task_groups:\n");
    for (const char* section : {"first", "second"}) {
      absl::StrAppend(&text, "    - name: in-", section, "\n      section: ", section,
                      "\n      replicas: 1\n      argv: [/bin/sleep, \"3600\"]\n"
                      "      resources: {cpu: 10m, memory: 32Mi}\n");
    }
    const CommandResult submitted = platform_->SubmitText(parts, text);
    ASSERT_EQ(submitted.exit_code, 0) << submitted.out << submitted.err;
    for (const std::string& job : {elastic, parts}) {
      EXPECT_TRUE(platform_->AwaitJob(job, "STATE_RUNNING STARTED 1")) << job;
      EXPECT_TRUE(platform_->Await([&] { return RunningTasks(job) == 2; })) << job;
    }
  }

  int RunningTasks(const std::string& job) {
    const scheduler::v1::Job now = platform_->Get(job);
    return static_cast<int>(std::count_if(
        now.tasks().begin(), now.tasks().end(), [](const scheduler::v1::TaskStatus& task) {
          return task.state() == type::v1::TaskObservation::STATE_RUNNING;
        }));
  }

  // By the version that runs now, of what the other one has left: what waited goes on, what ran
  // does still, and the token lets its Node in, once.
  void GoOnWith(const std::string& by) {
    std::ofstream(Opened(by)).close();
    platform_->MustSucceed(absl::StrCat("after-", by));
    EXPECT_EQ(platform_->MustCapstan({"job", "logs", absl::StrCat("after-", by)}),
              absl::StrCat("[0] out of the bundle of ", by, "\n"));
    for (int i = 0; i < 3; ++i) {
      const std::string element = absl::StrCat("sweep-", by, "-", i);
      platform_->MustSucceed(element);
      EXPECT_EQ(platform_->MustCapstan({"job", "logs", element}),
                absl::StrCat("[0] element ", i, " of 3\n"));
    }
    for (const char* kind : {"elastic-", "parts-"}) {
      EXPECT_EQ(platform_->Get(kind + by).generation(), 1) << kind;
      EXPECT_EQ(RunningTasks(kind + by), 2) << kind;
    }
    const auto token = auth::ParseJoinToken(tokens_[by]);
    const auto endpoints = cli::ReadEndpoints(platform_->data_dir());
    ASSERT_TRUE(token.ok() && endpoints.ok()) << token.status() << endpoints.status();
    const auto join = [&](const std::string& folder) {
      return auth::Join(*token, endpoints->join_address(), platform_->folder() + folder, &clock_,
                        absl::Seconds(20));
    };
    const auto joined = join("/joined-" + by);
    ASSERT_TRUE(joined.ok()) << joined.status();
    EXPECT_THAT((*joined)->spiffe_id(), EndsWith("/node/local/of-" + by));
    EXPECT_FALSE(join("/again-" + by).ok()) << "it is used up";
  }

  // What waits and runs ends by the version that goes on with it.
  void Cancel(const std::string& by) {
    for (const char* kind : {"elastic-", "parts-", "large-"}) {
      platform_->MustCapstan({"job", "cancel", kind + by, "--wait"});
    }
    platform_->MustCapstan({"node", "order", "delete", by});
    platform_->MustCapstan({"node", "maintenance", "delete", by});
    EXPECT_TRUE(platform_->Await([&] {
      return IsArchived("gate-" + by) && IsArchived("after-" + by) && IsArchived("sweep-" + by) &&
             IsArchived("large-" + by) && IsArchived("elastic-" + by) && IsArchived("parts-" + by);
    })) << platform_->MustCapstan({"job", "list"});
  }

  // What people see of what was made, by command.
  std::map<std::string, std::string> Views() {
    std::map<std::string, std::string> views;
    const auto see = [&](const std::vector<std::string>& arguments) {
      std::string name;
      for (const std::string& word : arguments) absl::StrAppend(&name, word, " ");
      views[name] = platform_->MustCapstan(arguments);
    };
    see({"project", "list", "-o", "json"});
    see({"access", "denials", "-o", "json"});
    see({"dataset", "list", "-o", "json"});
    see({"node", "maintenance", "list", "-o", "json"});
    see({"node", "order", "list", "-o", "json"});
    for (const std::string& by : made_) {
      // From the archive.
      see({"job", "get", by, "-o", "json"});
      for (const char* kind : {"gate-", "after-", "sweep-", "large-", "elastic-", "parts-"}) {
        see({"job", "get", kind + by, "-o", "json"});
      }
      see({"job", "list", "--array", "sweep-" + by, "-o", "json"});
      see({"job", "logs", by});
      see({"job", "output", by, "-o", "json"});
      see({"role", "list", "--project", by, "-o", "json"});
      see({"dataset", "get", by, "-o", "json"});
      views["queue " + by] = QueueOf(by).DebugString();
      views["subscription " + by] = CursorOf(by);
    }
    return views;
  }

  // All but what it has used, which decays. That its settings are the ones it was made with shows
  // that there is something to compare.
  scheduler::v1::Queue QueueOf(const std::string& name) {
    auto queue = Parse<scheduler::v1::Queue>({"queue", "get", name, "-o", "json"});
    EXPECT_EQ(queue.weight(), 3);
    EXPECT_EQ(queue.quotas_size(), 1);
    EXPECT_EQ(queue.min_runtime().seconds(), 7 * 60);
    EXPECT_EQ(queue.submit_rate().count(), 500);
    EXPECT_EQ(queue.disruption_budget().count(), 3);
    queue.clear_usage();
    return queue;
  }

  // Whose Subscription it is, and how far its reader has come: everything that was there.
  std::string CursorOf(const std::string& name) {
    const auto cursor =
        Parse<telemetry::v1::Subscription>({"subscription", "get", name, "-o", "json"});
    EXPECT_GT(cursor.acknowledged_offset(), 0);
    EXPECT_GT(cursor.reader_generation(), 0);
    EXPECT_EQ(cursor.acknowledged_offset(), cursor.last_offset());
    return absl::StrCat(cursor.name(), " ", cursor.stream(), " ",
                        cursor.create_time().ShortDebugString(), " ", cursor.acknowledged_offset(),
                        " ", cursor.reader_generation());
  }

  template <typename Message>
  Message Parse(const std::vector<std::string>& arguments) {
    Message message;
    const std::string json = platform_->MustCapstan(arguments);
    EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(json, &message).ok()) << json;
    return message;
  }

  // The other program takes over what the one that runs leaves.
  void ChangeTo(const std::string& program) {
    platform_->Down({"--keep-tasks"});
    platform_->Use(program);
    platform_->Up();
    ASSERT_TRUE(platform_->AwaitReady());
  }

  void ExpectGoesOn(const TaskProcesses& task) {
    EXPECT_TRUE(dev::IsAlive(task.program));
    const int said = platform_->Witnesses().Count("beat");
    EXPECT_TRUE(platform_->Await([&] { return platform_->Witnesses().Count("beat") > said; }));
    EXPECT_EQ(platform_->Get("gang").generation(), 1);
  }

  std::unique_ptr<TestPlatform> platform_;
  std::vector<std::string> made_;

 private:
  struct Job {
    std::string script{};
    int replicas = 1;
    std::string cpu = "10m";
    // Lines of its TaskGroup.
    std::string more{};
  };
  void MustSubmit(const std::string& id, const std::string& spec_lines, const Job& job) {
    const CommandResult submitted = platform_->SubmitText(
        id, absl::StrCat("job_id: ", id, "\nspec:\n  time_limit: 2h\n", spec_lines,
                         "  task_groups:\n    - name: w\n      replicas: ", job.replicas,
                         "\n      argv: [/bin/sh, -c, '", job.script,
                         "']\n      resources: {cpu: ", job.cpu, ", memory: 32Mi}\n", job.more));
    ASSERT_EQ(submitted.exit_code, 0) << submitted.out << submitted.err;
  }
  // Where Tasks may look.
  std::string Opened(const std::string& by) const {
    return absl::StrCat(platform_->folder(), "/witness/open-", by);
  }
  bool IsArchived(const std::string& job) {
    return !absl::StrContains(platform_->MustCapstan({"job", "list", "-o", "name"}),
                              absl::StrCat("jobs/", job, "\n"));
  }
  std::string Bucket(const std::string& folder, const std::string& words) {
    // Where Datasets may lie.
    mkdir((platform_->data_dir() + "/buckets").c_str(), 0755);
    EXPECT_EQ(mkdir(folder.c_str(), 0755), 0);
    std::ofstream(folder + "/words") << words << "\n";
    return folder;
  }

  const SystemClock clock_;
  // By who made them.
  std::map<std::string, std::string> tokens_;
};

TEST_F(UpgradeTest, ToTheNextVersionAndBackUnderARunningGang) {
  platform_->Submit({.id = "gang", .ranks = kRanks, .steps = kSteps, .checkpoint_every = 100});
  Make("older");
  ASSERT_TRUE(platform_->Await([&] { return platform_->Witnesses().Count("start") == kRanks; }));
  const auto task = platform_->FindTask("gang", 1, 0);
  ASSERT_TRUE(task.has_value());
  const auto before = Views();

  ChangeTo(kOwn);
  EXPECT_EQ(Views(), before);
  EXPECT_THAT(platform_->MustCapstan({"admin", "check"}), HasSubstr("scheduler: sound"));
  ExpectGoesOn(*task);
  GoOnWith("older");
  Make("newer");
  Cancel("older");
  const auto later = Views();

  ChangeTo(OlderProgram());
  EXPECT_EQ(Views(), later);
  EXPECT_THAT(platform_->MustCapstan({"admin", "check"}), HasSubstr("scheduler: sound"));
  ExpectGoesOn(*task);
  GoOnWith("newer");
  Cancel("newer");

  // The last step, and its commit, by the version that began it, after the other one had it.
  platform_->MustSucceed("gang");
  EXPECT_THAT(platform_->Witnesses().Violations(), IsEmpty());
  EXPECT_EQ(platform_->Witnesses().Count("start"), kRanks);
  platform_->MustCapstan({"audit", "verify"});
}

}  // namespace
}  // namespace capstan::integration
