// What is wrong with a request is told by code, field and remedy, and leaves nothing behind: each
// row is one mistake in an otherwise good request, sent to a running platform as an admin.
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "integration/access/method_catalog.h"
#include "integration/access/raw_call.h"
#include "integration/platform/test_platform.h"
#include "integration/wrong_input/rows.h"
#include "libs/rpc/credentials.h"
#include "libs/rpc/identity.h"
#include "libs/rpc/status_conversion.h"
#include "libs/status/error.h"
#include "libs/time/system_clock.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "tools/capstan/cli/platform.h"

namespace capstan::integration {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(20);

class WrongInputTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (TestPlatform::Unable().has_value()) return;
    platform_ = new TestPlatform();
    platform_->Up();
    for (const char* queue : {"upper", "lower"}) {
      std::vector<std::string> create = {"queue", "create", queue};
      if (queue == std::string("lower")) create.push_back("--parent=upper");
      platform_->MustCapstan(create);
    }
    const absl::Status made =
        Send({"", "scheduler.JobService/CreateJob",
              absl::StrCat("parent: 'projects/default' job_id: 'there' job { ",
                           GoodJob("",
                                   "name: 'w' replicas: 1 argv: '/bin/sleep' argv: '3600' "
                                   "resources { cpu_millis: 10 memory_bytes: 33554432 }"),
                           " } request_id: '", kRequestId, "'"),
              absl::StatusCode::kOk, "", ""});
    ASSERT_TRUE(made.ok()) << made;
    // After that nothing changes by itself.
    ASSERT_TRUE(platform_->Await([] {
      const scheduler::v1::Job job = platform_->Get("there");
      return job.tasks_size() == 1 && job.tasks(0).pid() > 0;
    }));
  }
  static void TearDownTestSuite() {
    channels_.clear();
    identity_ = nullptr;
    delete platform_;
    platform_ = nullptr;
  }
  void SetUp() override {
    if (platform_ == nullptr) GTEST_SKIP() << *TestPlatform::Unable();
  }

  static absl::Status Send(const Row& row) {
    static const auto* const kAll = new std::vector<Method>(AllMethods());
    if (identity_ == nullptr) {
      identity_ = rpc::Identity::Load(platform_->data_dir() + "/person").value();
    }
    static const auto endpoints = cli::ReadEndpoints(platform_->data_dir()).value();
    const size_t dot = row.method.find('.');
    std::string part = row.method.substr(0, dot);
    const std::string path = absl::StrCat("/capstan.", part, ".v1.", row.method.substr(dot + 1));
    if (part == "dataloader") part = "data_loader";
    if (part == "clustermanager") part = "cluster_manager";
    auto& channel = channels_[part];
    if (channel == nullptr) {
      channel = DialAlone(endpoints.parts().at(part).address(),
                          rpc::MutualTlsChannelCredentials(identity_, &clock_, "/svc/" + part));
    }
    for (const Method& method : *kAll) {
      if (method.path != path) continue;
      const auto request = RequestOf(method);
      EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(row.request, request.get()))
          << row.request;
      return rpc::FromGrpcStatus(RawCall(channel, path, *request, kPatience));
    }
    return absl::InternalError("there is no method " + path);
  }

  // All that people can make, as the command line shows it.
  static std::string Everything() {
    std::string all;
    for (const char* kind : {"job", "queue", "dataset", "project", "role", "subscription"}) {
      absl::StrAppend(&all, platform_->MustCapstan({kind, "list", "-o", "json"}), "\n");
    }
    absl::StrAppend(&all, platform_->MustCapstan({"node", "maintenance", "list", "-o", "json"}),
                    "\n");
    return all;
  }

  static SystemClock clock_;
  static TestPlatform* platform_;
  static std::shared_ptr<rpc::Identity> identity_;
  static std::map<std::string, std::shared_ptr<grpc::Channel>> channels_;
};

SystemClock WrongInputTest::clock_;
TestPlatform* WrongInputTest::platform_ = nullptr;
std::shared_ptr<rpc::Identity> WrongInputTest::identity_;
std::map<std::string, std::shared_ptr<grpc::Channel>> WrongInputTest::channels_;

TEST_F(WrongInputTest, EachMistakeIsNamedWithItsFieldAndLeavesNothing) {
  const std::string before = Everything();
  std::vector<Row> rows = JobRows();
  const std::vector<Row> others = OtherRows();
  rows.insert(rows.end(), others.begin(), others.end());
  for (const Row& row : rows) {
    SCOPED_TRACE(absl::StrCat(row.method, ": ", row.mistake));
    const absl::Status status = Send(row);
    EXPECT_EQ(status.code(), row.code) << status;
    std::vector<std::string> fields;
    std::string said(status.message());
    for (const status::FieldViolation& violation : status::GetFieldViolations(status)) {
      fields.push_back(violation.field);
      absl::StrAppend(&said, "\n", violation.field, ": ", violation.description);
    }
    if (!row.field.empty()) {
      EXPECT_NE(std::find(fields.begin(), fields.end(), row.field), fields.end())
          << "expected " << row.field << ", found " << absl::StrJoin(fields, ", ") << "\n"
          << status;
    }
    EXPECT_TRUE(absl::StrContains(said, row.words)) << "expected " << row.words << "\n" << said;
  }
  std::printf("%zu mistakes\n", rows.size());
  EXPECT_GE(rows.size(), 120u);
  EXPECT_EQ(Everything(), before);
}

// The same by the command line: exit code 3, with the place in the file; 2 for the line itself; 4
// for what is not there; 6 for what is there already.
TEST_F(WrongInputTest, TheCommandLineNamesThePlace) {
  const std::string group =
      "  task_groups:\n    - name: w\n      replicas: 1\n      argv: [/bin/true]\n"
      "      resources: {cpu: 10m, memory: 32Mi}\n";
  struct File {
    std::string text;
    int exit_code;
    std::string words;
  };
  const std::string good = "spec:\n" + group;
  const std::vector<File> files = {
      {"spec:\n\ttask_groups: []\n", 3, ".yaml:2:"},
      {"spec: {\n", 3, ".yaml:"},
      {good + "spec: {}\n", 3, "spec"},
      {"jobid: x\n" + good, 3, ".yaml:1:1: jobid: unknown field; did you mean 'job_id'?"},
      {good + "  priority: high\n", 3, ".yaml:7:13: spec.priority"},
      {good + "  priority: 1.5\n", 3, ".yaml:7:13: spec.priority"},
      {good + "  priority: 99999999999\n", 3, ".yaml:7:13: spec.priority"},
      {good + "  output: maybe\n", 3, ".yaml:7:11: spec.output"},
      {good + "  time_limit: 4 fortnights\n", 3, ".yaml:7:15: spec.time_limit"},
      {good + "  time_limit: -4h\n", 3, "spec.time_limit"},
      {good + "  labels: [a, b]\n", 3, ".yaml:7:11: spec.labels"},
      {good + "  preemption: SOMETIMES\n", 3, ".yaml:7:15: spec.preemption"},
      {good + "  queue: nowhere\n", 3, ".yaml:7:10: spec.queue: `queues/nowhere` does not exist"},
      {good + "  topology: {required: LEVEL_GALAXY}\n", 3, "spec.topology.required"},
      {"job_id: there\n" + good, 6, "there exists already"},
      {"spec:\n  task_groups:\n    - {name: w, replicas: 1, argv: [/bin/true], resources: "
       "{cpu: 10x, memory: 32Mi}}\n",
       3, ".yaml:3:"},
      {"spec:\n  task_groups:\n    - {name: w, replicas: 1, argv: [/bin/true], resources: "
       "{cpu: 10m, memory: 32Gib}}\n",
       3, ".yaml:3:"},
      {std::string("spec: \xff\xfe\n"), 3, "UTF-8"},
      {"", 3, "spec: is missing"},
  };
  const std::string before = Everything();
  int number = 0;
  for (const File& file : files) {
    const CommandResult result = platform_->SubmitText(absl::StrCat("wrong-", ++number), file.text);
    EXPECT_EQ(result.exit_code, file.exit_code) << file.text << result.out << result.err;
    EXPECT_TRUE(absl::StrContains(result.err, file.words)) << file.text << "\n" << result.err;
  }
  for (const auto& [line, exit_code] :
       std::vector<std::pair<std::string, int>>{{"job get absent", 4},
                                                {"job cancel absent", 4},
                                                {"job logs absent", 4},
                                                {"job get A/B", 3},
                                                {"queue get absent", 4},
                                                {"queue create default", 6},
                                                {"queue create wrong --weight=-1", 3},
                                                {"queue create wrong --submit-rate=5", 3},
                                                {"queue create wrong --submit-rate=5/h/x", 3},
                                                {"dataset get absent", 4},
                                                {"dataset create wrong --source=gopher://x/y", 3},
                                                {"project create default", 6},
                                                {"role bind 1 emperor", 3},
                                                {"node cordon absent", 4},
                                                {"job list --limit=many", 2},
                                                {"subscription read absent", 4},
                                                {"access deny nobody --reason=r", 3}}) {
    const CommandResult result = platform_->Capstan(absl::StrSplit(line, ' '));
    EXPECT_EQ(result.exit_code, exit_code) << "capstan " << line << "\n" << result.err;
    EXPECT_TRUE(absl::StartsWith(result.err, "error: ") || exit_code == 2)
        << "capstan " << line << "\n"
        << result.err;
  }
  EXPECT_EQ(Everything(), before);
}

}  // namespace
}  // namespace capstan::integration
