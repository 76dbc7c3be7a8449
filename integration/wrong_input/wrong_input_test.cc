// What is wrong with a request is told by code, field and remedy, and leaves nothing behind: each
// row is one mistake in an otherwise good request, sent to a running platform as an admin.
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/empty.pb.h"
#include "google/protobuf/message.h"
#include "google/protobuf/text_format.h"
#include "google/protobuf/unknown_field_set.h"
#include "grpcpp/client_context.h"
#include "gtest/gtest.h"
#include "integration/access/method_catalog.h"
#include "integration/access/raw_call.h"
#include "integration/platform/test_platform.h"
#include "integration/secrets/secret_scan.h"
#include "integration/wrong_input/rows.h"
#include "libs/rpc/credentials.h"
#include "libs/rpc/identity.h"
#include "libs/rpc/status_conversion.h"
#include "libs/status/error.h"
#include "libs/store/sqlite_connection.h"
#include "libs/time/system_clock.h"
#include "proto/capstan/credentials/v1/project.grpc.pb.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "proto/capstan/scheduler/v1/queue.grpc.pb.h"
#include "tools/capstan/cli/platform.h"

namespace capstan::integration {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(20);

// In no contract of ours, as a newer client would send it, or one that is mistaken.
constexpr int kNobodysField = 29'999;
constexpr char kNobodysText[] = "what-no-contract-has-a-field-for";
// In one that is there, to be seen; like the other in no part.
constexpr char kSomebodysText[] = "seen-where-it-is-kept";

// Adds that field to the message and to each one in it.
void AddNobodysField(google::protobuf::Message* message) {
  const auto* reflection = message->GetReflection();
  reflection->MutableUnknownFields(message)->AddLengthDelimited(kNobodysField, kNobodysText);
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  reflection->ListFields(*message, &fields);
  for (const auto* field : fields) {
    if (field->cpp_type() != google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (!field->is_repeated()) {
      AddNobodysField(reflection->MutableMessage(message, field));
      continue;
    }
    for (int i = 0; i < reflection->FieldSize(*message, field); ++i) {
      AddNobodysField(reflection->MutableRepeatedMessage(message, field, i));
    }
  }
}

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
    MakeOneOfEach();
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

  // As the admin.
  static std::shared_ptr<grpc::Channel> ChannelTo(const std::string& part) {
    if (identity_ == nullptr) {
      identity_ = rpc::Identity::Load(platform_->data_dir() + "/person").value();
    }
    static const auto endpoints = cli::ReadEndpoints(platform_->data_dir()).value();
    auto& channel = channels_[part];
    if (channel == nullptr) {
      channel = DialAlone(endpoints.parts().at(part).address(),
                          rpc::MutualTlsChannelCredentials(identity_, &clock_, "/svc/" + part));
    }
    return channel;
  }

  // `nobodys`: with a field in each message that is in no contract. The answer's bytes go to
  // `answer`.
  static absl::Status Send(const Row& row, bool nobodys = false, std::string* answer = nullptr) {
    static const auto* const kAll = new std::vector<Method>(AllMethods());
    const size_t dot = row.method.find('.');
    std::string part = row.method.substr(0, dot);
    const std::string path = absl::StrCat("/capstan.", part, ".v1.", row.method.substr(dot + 1));
    if (part == "dataloader") part = "data_loader";
    if (part == "clustermanager") part = "cluster_manager";
    const auto channel = ChannelTo(part);
    for (const Method& method : *kAll) {
      if (method.path != path) continue;
      const auto request = RequestOf(method);
      EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(row.request, request.get()))
          << row.request;
      if (nobodys) AddNobodysField(request.get());
      // Of any type: all of its fields are kept as unknown ones.
      google::protobuf::Empty received;
      const grpc::Status status = RawAnswer(channel, path, *request, kPatience, &received);
      if (answer != nullptr) *answer = received.SerializeAsString();
      return rpc::FromGrpcStatus(status);
    }
    return absl::InternalError("there is no method " + path);
  }

  // Something of every kind that a mistake could make one more of.
  static void MakeOneOfEach() {
    for (const Row& row : MadeBefore(clock_.Read().wall)) {
      const absl::Status made = Send(row);
      EXPECT_TRUE(made.ok()) << row.method << ": " << made;
    }
    mkdir((platform_->folder() + "/code").c_str(), 0700);
    std::ofstream(platform_->folder() + "/code/main.py") << "print('made')\n";
    platform_->MustCapstan({"bundle", "upload", platform_->folder() + "/code"});
  }

  // All that people can make: as the command line shows it, and the records of what it does not
  // list.
  static std::string Everything() {
    std::string all;
    for (const char* kind : {"job", "dataset", "project", "role", "subscription"}) {
      absl::StrAppend(&all, platform_->MustCapstan({kind, "list", "-o", "json"}), "\n");
    }
    for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
             {"node", "maintenance", "list", "-o", "json"},
             {"node", "order", "list", "-o", "json"},
             {"access", "denials", "-o", "json"},
             // Shares follow what Nodes and Jobs do; the tag is of what is stored.
             {"queue", "list", "-o", "jsonpath={range .items[*]}{.name} {.uid} {.etag};{end}"},
             // The rest of a Node changes by itself.
             {"node", "list", "-o",
              "jsonpath={range .items[*]}{.name} {.cordons[*].owner} {.cordons[*].reason}{end}"}}) {
      absl::StrAppend(&all, platform_->MustCapstan(words), "\n");
    }
    for (const auto& [part, kind] :
         std::vector<std::pair<std::string, std::string>>{{"credentials", "join_token"},
                                                          {"credentials", "deny"},
                                                          {"credentials", "request"},
                                                          {"data_loader", "bundle"},
                                                          {"data_loader", "load"},
                                                          {"data_loader", "request"},
                                                          {"scheduler", "capacity_orders"},
                                                          {"scheduler", "requests"}}) {
      absl::StrAppend(&all, Records(part, kind));
    }
    return all;
  }

  // Keys of a kind in a service's store, each with the change that wrote it.
  static std::string Records(const std::string& part, const std::string& kind) {
    const auto db = store::SqliteConnection::Open(
        absl::StrCat(platform_->data_dir(), "/", part, "/store.sqlite"), /*writable=*/false,
        /*create=*/false);
    EXPECT_TRUE(db.ok()) << db.status();
    if (!db.ok()) return "";
    const std::string prefix = absl::StrCat("/capstan/", part, "/v1/", kind);
    const std::string first = prefix + "/";
    const std::string end = prefix + "0";
    store::SqliteStatement row =
        (*db)->Query("SELECT key, seq FROM current WHERE key >= ? AND key < ?");
    row.BindBlob(first).BindBlob(end);
    std::string all;
    while (row.Next()) absl::StrAppend(&all, row.Blob(0), " ", row.Int(1), "\n");
    EXPECT_TRUE(row.status().ok()) << row.status();
    return all;
  }

  // The words are said of the field, or, where the mistake is in none, by the message.
  static void ExpectNamed(const absl::Status& status, const std::string& field,
                          const std::string& words) {
    std::vector<std::string> fields;
    std::string said(field.empty() ? status.message() : absl::string_view());
    for (const status::FieldViolation& violation : status::GetFieldViolations(status)) {
      fields.push_back(violation.field);
      if (violation.field == field) absl::StrAppend(&said, violation.description, "\n");
    }
    if (!field.empty()) {
      EXPECT_NE(std::find(fields.begin(), fields.end(), field), fields.end())
          << "expected " << field << ", found " << absl::StrJoin(fields, ", ") << "\n"
          << status;
    }
    EXPECT_NE(words, "") << "whoever made the mistake must be told how to mend it: " << said;
    if (status.code() == absl::StatusCode::kInvalidArgument) {
      // What is expected, or what to do.
      const std::vector<std::string> remedies = {
          "expected", "must",         "choose",      "give",    "put it",
          "leave",    "name it once", "begin again", "instead", "is not of the form",
          "capstan ", "required",     "exactly one", "set ",    "names no field of"};
      EXPECT_TRUE(
          std::any_of(remedies.begin(), remedies.end(),
                      [&](const std::string& remedy) { return absl::StrContains(said, remedy); }))
          << "no remedy: " << said;
    }
    EXPECT_TRUE(absl::StrContains(said, words)) << "expected " << words << "\n" << said;
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

// What is looked at shows what is there: else nothing could be seen to be left behind.
TEST_F(WrongInputTest, WhatIsMadeIsSeen) {
  const std::string all = Everything();
  for (const char* made :
       {"projects/default/jobs/there", "queues/made", "clusters/local/maintenanceWindows/made",
        "capacityOrders/made", "projects/default/datasets/made", "projects/made",
        "projects/default/roleBindings/made", "projects/default/subscriptions/made", "d0d1",
        "cordoned by the test", "/capstan/credentials/v1/join_token/",
        "/capstan/credentials/v1/request/", "/capstan/data_loader/v1/bundle/",
        "/capstan/data_loader/v1/request/", "/capstan/scheduler/v1/requests/"}) {
    EXPECT_TRUE(absl::StrContains(all, made)) << made << "\n" << all;
  }
}

// A token that one list gave is refused by each other one, and by the same one with another filter;
// it is good where it belongs.
TEST_F(WrongInputTest, APageTokenIsOfOneList) {
  scheduler::v1::ListQueuesRequest list_queues;
  list_queues.set_page_size(1);
  scheduler::v1::ListQueuesResponse queues;
  grpc::ClientContext of_queues;
  ASSERT_TRUE(scheduler::v1::QueueService::NewStub(ChannelTo("scheduler"))
                  ->ListQueues(&of_queues, list_queues, &queues)
                  .ok());
  credentials::v1::ListProjectsRequest list_projects;
  list_projects.set_page_size(1);
  credentials::v1::ListProjectsResponse projects;
  grpc::ClientContext of_projects;
  ASSERT_TRUE(credentials::v1::ProjectService::NewStub(ChannelTo("credentials"))
                  ->ListProjects(&of_projects, list_projects, &projects)
                  .ok());
  struct List {
    std::string method;
    // But the page.
    std::string request;
  };
  const std::vector<List> lists = {
      {"scheduler.QueueService/ListQueues", ""},
      {"scheduler.JobService/ListJobs", "parent: 'projects/default'"},
      {"scheduler.NodeService/ListNodes", "parent: 'clusters/local'"},
      {"scheduler.NodeService/ListMaintenanceWindows", "parent: 'clusters/local'"},
      {"scheduler.CapacityOrderService/ListCapacityOrders", ""},
      {"credentials.ProjectService/ListProjects", ""},
      {"credentials.ProjectService/ListRoleBindings", "parent: 'projects/default'"},
      {"dataloader.DatasetService/ListDatasets", "parent: 'projects/default'"},
      {"dataloader.DataLoadService/ListDataLoads", "parent: 'projects/default'"},
      {"telemetry.ArchiveService/ListArchivedJobs", "parent: 'projects/default'"},
      {"clustermanager.ClusterService/ListClusters", ""}};
  for (const auto& [of, token] : std::vector<std::pair<std::string, std::string>>{
           {lists[0].method, queues.next_page_token()},
           {lists[5].method, projects.next_page_token()}}) {
    ASSERT_FALSE(token.empty()) << of << " has one page only";
    for (const List& list : lists) {
      SCOPED_TRACE(absl::StrCat("a token of ", of, " for ", list.method));
      const absl::Status status = Send(
          {"", list.method, absl::StrCat(list.request, " page_token: '", absl::CEscape(token), "'"),
           absl::StatusCode::kOk, "", ""});
      if (list.method == of) {
        EXPECT_TRUE(status.ok()) << status;
        continue;
      }
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
      ExpectNamed(status, "page_token", "begin again without a token");
    }
  }
}

TEST_F(WrongInputTest, EachMistakeIsNamedWithItsFieldAndLeavesNothing) {
  const std::string before = Everything();
  std::vector<Row> rows = JobRows();
  const std::vector<Row> others = OtherRows(clock_.Read().wall);
  rows.insert(rows.end(), others.begin(), others.end());
  for (const Row& row : rows) {
    SCOPED_TRACE(absl::StrCat(row.method, ": ", row.mistake));
    const absl::Status status = Send(row);
    EXPECT_EQ(status.code(), row.code) << status;
    ExpectNamed(status, row.field, row.words);
  }
  std::printf("%zu mistakes\n", rows.size());
  EXPECT_GE(rows.size(), 120u);
  EXPECT_EQ(Everything(), before);
}

// The same by the command line: exit code 3, with the place in the file; 2 for the line itself; 4
// for what is not there; 6 for what is there already. Each says what to do, and of what is not
// there the whole name that was looked for.
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
  struct Line {
    std::string words;
    int exit_code;
    // What must be said: what it was, and how to mend it.
    std::string remedy;
  };
  const std::vector<Line> lines = {
      {"job get absent", 4, "'projects/default/jobs/absent' was not found"},
      {"job cancel absent", 4, "'projects/default/jobs/absent' was not found"},
      {"job hold absent", 4, "'projects/default/jobs/absent' was not found"},
      {"job release absent", 4, "'projects/default/jobs/absent' was not found"},
      {"job update absent --priority 1", 4, "'projects/default/jobs/absent' was not found"},
      {"job update absent --priority 5000", 3,
       "job.spec.priority: is 5000; expected -1000 to 1000"},
      {"job update absent", 3, "expected at least one of the options, e.g. --priority 5"},
      {"job logs absent", 4, "'projects/default/jobs/absent' was not found"},
      {"job get A/B", 3, "is `A/B`; expected projects/{project}/jobs/{job}"},
      {"queue get absent", 4, "'queues/absent' was not found"},
      {"queue create default", 6, "queues/default exists already; choose another id"},
      {"queue create wrong --weight=-1", 3, "queue.weight: is -1; expected 1 to 1000000"},
      {"queue create wrong --submit-rate=5", 3,
       "`5` is no rate; expected a count and a time, e.g. 10/1m"},
      {"queue create wrong --submit-rate=5/h/x", 3,
       "`5/h/x` is no rate; expected a count and a time, e.g. 10/1m"},
      {"dataset get absent", 4, "'projects/default/datasets/absent' was not found"},
      {"dataset create wrong --source=gopher://x/y", 3,
       "dataset.source_uri: is 'gopher://x/y'; expected file:///"},
      {"project create default", 6, "`projects/default` exists already; choose another id"},
      {"role bind 1 emperor", 3,
       "'emperor' is no role; admin, operator, researcher and viewer are"},
      {"node cordon absent", 4, "'clusters/local/nodes/absent' was not found"},
      {"job list --limit=many", 2, "Run with --help"},
      {"audit list --limit=many", 2, "--limit"},
      {"subscription read absent", 4, "'projects/default/subscriptions/absent' was not found"},
      {"access deny nobody --reason=r", 3, "spiffe_id: expected an id of spiffe://"},
  };
  for (const Line& line : lines) {
    const CommandResult result = platform_->Capstan(absl::StrSplit(line.words, ' '));
    EXPECT_EQ(result.exit_code, line.exit_code) << "capstan " << line.words << "\n" << result.err;
    EXPECT_TRUE(absl::StartsWith(result.err, "error: ") || line.exit_code == 2)
        << "capstan " << line.words << "\n"
        << result.err;
    EXPECT_NE(line.remedy, "");
    EXPECT_TRUE(absl::StrContains(result.err, line.remedy)) << "capstan " << line.words << "\n"
                                                            << result.err;
  }
  EXPECT_EQ(Everything(), before);
}

// Unknown fields are ignored (AIP-180: newer clients have fields that this server has not): the call
// does what it does without them, also where it is sent again, and nothing of them is stored,
// answered, logged or recorded, from where a newer version would take them for what was checked.
TEST_F(WrongInputTest, FieldsOfNoContractAreIgnoredAndNotKept) {
  // So that a Job gets to its Node.
  platform_->MustCapstan({"node", "uncordon", "node-0"});
  for (const Row& row : GoodRows(clock_.Read().wall, kSomebodysText)) {
    SCOPED_TRACE(absl::StrCat(row.method, ": ", row.mistake));
    std::string answer;
    const absl::Status made = Send(row, /*nobodys=*/true, &answer);
    EXPECT_TRUE(made.ok()) << made;
    EXPECT_FALSE(absl::StrContains(answer, kNobodysText));
    if (!absl::StrContains(row.request, "request_id")) continue;
    // What is sent again is the same request by all of its bytes.
    const absl::Status again = Send(row, /*nobodys=*/true);
    EXPECT_TRUE(again.ok()) << again;
  }
  EXPECT_TRUE(platform_->Await([] {
    const scheduler::v1::Job job = platform_->Get("odd");
    return job.tasks_size() == 1 && job.tasks(0).pid() > 0;
  }));
  // Read back by one who would see all fields.
  constexpr auto kOk = absl::StatusCode::kOk;
  for (const Row& row : std::vector<Row>{
           {"", "scheduler.JobService/GetJob", "name: 'projects/default/jobs/odd'", kOk, "", ""},
           {"", "scheduler.QueueService/GetQueue", "name: 'queues/odd'", kOk, "", ""},
           {"", "dataloader.DatasetService/ListDatasets", "parent: 'projects/default'", kOk, "",
            ""}}) {
    std::string answer;
    const absl::Status got = Send(row, /*nobodys=*/true, &answer);
    EXPECT_TRUE(got.ok()) << got;
    EXPECT_TRUE(absl::StrContains(answer, "odd")) << row.method;
    EXPECT_FALSE(absl::StrContains(answer, kNobodysText)) << row.method;
  }
  platform_->MustCapstan({"admin", "backup", "--out", platform_->folder() + "/backup"});
  SecretScan scan;
  scan.Add({"a field of no contract", kNobodysText, {}});
  scan.Add({"a Job's own text", kSomebodysText, {"*"}});
  scan.LookAtFolder("files", platform_->folder());
  EXPECT_EQ(scan.Strays(), "");
  // The places were looked at.
  for (const char* place : {"files/data/scheduler/store.sqlite*", "files/data/executor/*",
                            "files/data/scheduler/recordings/*", "files/backup/*"}) {
    EXPECT_TRUE(scan.Saw("a Job's own text", place)) << place;
  }
}

}  // namespace
}  // namespace capstan::integration
