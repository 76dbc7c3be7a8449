// From one version to the next and back, under a gang that runs through both: what one version has
// stored the other one reads, Tasks and their shims are taken over by the other's agent, and
// nothing runs twice. The other version's program is CAPSTAN_OLDER_PROGRAM, which `./dev upgrade`
// builds; without it the same one stands for it, so that the way is walked in every run of the
// tests.
#include <sys/stat.h>

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
#include "gmock/gmock.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"
#include "integration/platform/test_platform.h"
#include "proto/capstan/scheduler/v1/queue.pb.h"
#include "proto/capstan/telemetry/v1/subscription.pb.h"
#include "tools/capstan/dev/process.h"

namespace capstan::integration {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kRanks = 2;
constexpr int kSteps = 1200;
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
    platform_ = std::make_unique<TestPlatform>("", OlderProgram());
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
        by, absl::StrCat("job_id: ", by, "\nspec:\n  queue: ", by,
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
    made_.push_back(by);
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
    for (const std::string& by : made_) {
      see({"job", "get", by, "-o", "json"});
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
  std::string Bucket(const std::string& folder, const std::string& words) {
    // Where Datasets may lie.
    mkdir((platform_->data_dir() + "/buckets").c_str(), 0755);
    EXPECT_EQ(mkdir(folder.c_str(), 0755), 0);
    std::ofstream(folder + "/words") << words << "\n";
    return folder;
  }
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
  Make("newer");
  const auto later = Views();

  ChangeTo(OlderProgram());
  EXPECT_EQ(Views(), later);
  EXPECT_THAT(platform_->MustCapstan({"admin", "check"}), HasSubstr("scheduler: sound"));
  ExpectGoesOn(*task);

  // The last step, and its commit, by the version that began it, after the other one had it.
  platform_->MustSucceed("gang");
  EXPECT_THAT(platform_->Witnesses().Violations(), IsEmpty());
  EXPECT_EQ(platform_->Witnesses().Count("start"), kRanks);
  platform_->MustCapstan({"audit", "verify"});
}

}  // namespace
}  // namespace capstan::integration
