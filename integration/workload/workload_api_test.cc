// The Workload API of a Node as its Tasks see it: a real credentials service over mTLS, the Node
// agent's real socket, and the official Go client as a process in a Task's cgroup. Needs root, for
// cgroups.
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "grpcpp/client_context.h"
#include "grpcpp/create_channel.h"
#include "gtest/gtest.h"
#include "libs/audit/audit_sink.h"
#include "libs/auth/testing/test_grant.h"
#include "libs/cgroup/cgroup.h"
#include "libs/log/testing_sink.h"
#include "libs/rpc/call.h"
#include "libs/rpc/identity.h"
#include "libs/rpc/x509.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/proto_time.h"
#include "libs/time/system_clock.h"
#include "proto/spiffe/workload/workload.grpc.pb.h"
#include "services/credentials/testing/server_harness.h"
#include "services/node_agent/adapters/credentials_task_tokens.h"
#include "services/node_agent/adapters/grant_book.h"
#include "services/node_agent/adapters/svid_task_identity.h"
#include "services/node_agent/workload_server.h"

namespace capstan::integration {
namespace {

using node_agent::IssueIdentity;
using node_agent::KeepIdentity;
using session::TaskId;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr char kIssuer[] = "https://svid.capstan.internal";
constexpr char kAudience[] = "sts.amazonaws.com";

std::string Absolute(const std::string& path) { return std::filesystem::absolute(path).string(); }

class Audited final : public audit::AuditSink {
 public:
  absl::Status Record(const audit::AuditEntry& entry) override {
    absl::MutexLock lock(&mutex_);
    entries_.push_back(entry);
    return absl::OkStatus();
  }
  // Waits for a record of the act.
  audit::AuditEntry Await(const std::string& act) {
    absl::MutexLock lock(&mutex_);
    const auto there = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      for (const audit::AuditEntry& entry : entries_) {
        if (entry.act == act) return true;
      }
      return false;
    };
    if (!mutex_.AwaitWithTimeout(absl::Condition(&there), absl::Seconds(30))) {
      ADD_FAILURE() << "no record of " << act;
      return {};
    }
    for (const audit::AuditEntry& entry : entries_) {
      if (entry.act == act) return entry;
    }
    return {};
  }

 private:
  absl::Mutex mutex_;
  std::vector<audit::AuditEntry> entries_ ABSL_GUARDED_BY(mutex_);
};

// A running program; its lines come as it writes them.
class Program {
 public:
  explicit Program(const std::string& command) : pipe_(popen(command.c_str(), "r")) {}
  ~Program() { pclose(pipe_); }
  // Empty at the end.
  std::string Line() {
    char* line = nullptr;
    size_t size = 0;
    const ssize_t read = getline(&line, &size, pipe_);
    std::string text(read > 0 ? line : "");
    free(line);
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return text;
  }
  std::vector<std::string> Lines() {
    std::vector<std::string> lines;
    for (std::string line = Line(); !line.empty(); line = Line()) lines.push_back(line);
    return lines;
  }

 private:
  FILE* const pipe_;
};

class WorkloadApiTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (geteuid() != 0) GTEST_SKIP() << "needs root: cgroups";
  }

  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "needs root: cgroups";
    // Not below TEST_TMPDIR: the paths of sockets are short.
    char folder[] = "/tmp/capstan-workload-XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    folder_ = folder;
    std::filesystem::create_directories(folder_ + "/credentials");
    credentials_ = std::make_unique<credentials::ServerHarness>(folder_ + "/credentials");
    credentials_->config().issuer = kIssuer;
    credentials_->config().openid_listen = "127.0.0.1:0";
    const absl::Status started = credentials_->Start();
    ASSERT_TRUE(started.ok()) << started;
    const auto admin = credentials_->Person();
    ASSERT_TRUE(admin.ok()) << admin.status();
    const auto token = credentials_->MakeToken(*admin, "/node/local/node-0");
    ASSERT_TRUE(token.ok()) << token.status();
    const auto node = credentials_->JoinAs(*token);
    ASSERT_TRUE(node.ok()) << node.status();
    channel_ = credentials_->Dial(*node);
    const auto scheduler_token = credentials_->MakeToken(*admin, "/svc/scheduler");
    ASSERT_TRUE(scheduler_token.ok()) << scheduler_token.status();
    const auto scheduler = credentials_->JoinAs(*scheduler_token);
    ASSERT_TRUE(scheduler.ok()) << scheduler.status();
    scheduler_ = *scheduler;
    auto groups = cgroup::Tree::Open(absl::StrCat("capstan-workload-", getpid()));
    ASSERT_TRUE(groups.ok()) << groups.status();
    ASSERT_TRUE(groups->fences());
    groups_ = *std::move(groups);
    identity_ = node_agent::MakeSvidTaskIdentity(channel_, &strand_, &files_, &grants_);
    tokens_ = node_agent::MakeCredentialsTaskTokens(channel_, &strand_);
    StartServer();
  }

  void StartServer(bool open = true) {
    auto server = node_agent::WorkloadServer::Start(folder_ + "/w", {.strand = &strand_,
                                                                     .files = &files_,
                                                                     .identity = identity_.get(),
                                                                     .tokens = tokens_.get(),
                                                                     .logger = &log_,
                                                                     .registry = &metrics_,
                                                                     .audit = &audited_});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    if (open) server_->Open();
  }

  void StopServer() {
    server_->Stop();
    Run([this] { server_.reset(); });
  }

  void TearDown() override {
    if (server_ != nullptr) StopServer();
    files_.Stop();
    Run([this] {
      identity_.reset();
      tokens_.reset();
    });
    strand_.Stop();
    credentials_.reset();
    if (groups_.has_value()) {
      for (const std::string& leaf : groups_->List()) groups_->Remove(leaf).IgnoreError();
      groups_->RemoveTree().IgnoreError();
    }
    std::error_code ignored;
    if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
  }

  void Run(const std::function<void()>& work) {
    absl::Notification done;
    strand_.Post([&] {
      work();
      done.Notify();
    });
    done.WaitForNotification();
  }

  // What PREPARE does for a Task of the Job: folder, cgroup, identity.
  KeepIdentity Prepare(const std::string& job_uid, int index) {
    KeepIdentity order;
    order.order.id = TaskId{job_uid, 1, "worker", index};
    order.order.folder = absl::StrCat(folder_, "/", job_uid, "-", index);
    order.order.job = "projects/default/jobs/" + job_uid;
    order.order.service_account = "projects/default/serviceAccounts/train";
    std::filesystem::create_directories(order.order.folder + "/identity");
    const auto paths = groups_->Make(absl::StrCat(job_uid, "-", index), {});
    EXPECT_TRUE(paths.ok()) << paths.status();
    order.cgroup.set_v2(paths->v2);
    order.cgroup.set_v1_freezer(paths->v1_freezer);
    Place(order.order);
    order.directory = Issue(order.order);
    return order;
  }

  // What the scheduler orders of a Task.
  void Place(const IssueIdentity& order) {
    type::v1::Placement placement;
    placement.set_trust_domain(scheduler_->trust_domain());
    placement.set_cluster("local");
    placement.set_node("node-0");
    placement.set_job(order.job);
    placement.set_job_uid(order.id.job_uid);
    placement.set_generation(order.id.generation);
    placement.set_group(order.id.group);
    placement.set_index(order.id.index);
    placement.set_service_account(order.service_account);
    *placement.mutable_sign_time() = ToProto(credentials_->clock().Read().wall);
    grants_.Hold({order.id, order.job, auth::TestGrant(scheduler_->Get()->svid, placement)});
  }

  // A new SVID in place of the one there is.
  std::string Issue(const IssueIdentity& order) {
    absl::Notification done;
    absl::StatusOr<std::string> directory;
    Run([&] {
      identity_->Issue(order, [&](absl::StatusOr<std::string> answer) {
        directory = std::move(answer);
        done.Notify();
      });
    });
    done.WaitForNotification();
    EXPECT_TRUE(directory.ok()) << directory.status();
    return directory.ok() ? *directory : "";
  }

  void Serve(const KeepIdentity& order) {
    Run([&] { server_->Serve(order); });
  }

  // A Task of the Job, being served.
  KeepIdentity Task(const std::string& job_uid, int index = 0) {
    KeepIdentity order = Prepare(job_uid, index);
    Serve(order);
    return order;
  }

  std::string Client(const std::string& arguments) const {
    return absl::StrCat("SPIFFE_ENDPOINT_SOCKET=unix://", folder_, "/w/api.sock exec ",
                        Absolute("tools/testenv/bin/go_spiffe"), " ", arguments, " 2>&1");
  }

  // The official client as a process of the Task.
  std::unique_ptr<Program> InTask(const KeepIdentity& task, const std::string& arguments) const {
    const std::string group =
        task.cgroup.v2().empty() ? task.cgroup.v1_freezer() : task.cgroup.v2();
    return std::make_unique<Program>(
        absl::StrCat("echo $$ > ", group, "/cgroup.procs; ", Client(arguments)));
  }

  std::string Id(const std::string& path) const {
    return absl::StrCat("spiffe://", credentials_->server().trust_domain(), path);
  }
  std::string TaskSpiffeId(const KeepIdentity& task) const {
    return Id(absl::StrCat("/project/default/sa/train/job/", task.order.id.job_uid,
                           "/gen/1/task/worker-", task.order.id.index));
  }
  std::string AccountSpiffeId() const { return Id("/project/default/sa/train"); }

  std::string folder_;
  std::unique_ptr<credentials::ServerHarness> credentials_;
  std::shared_ptr<grpc::Channel> channel_;
  std::shared_ptr<rpc::Identity> scheduler_;
  node_agent::GrantBook grants_;
  absl::optional<cgroup::Tree> groups_;
  const SystemClock clock_;
  log::TestingSink sink_;
  const log::Logger log_{"node_agent", &clock_, &sink_, log::Level::kDebug};
  metrics::Registry metrics_{"node_agent"};
  Audited audited_;
  ThreadStrand strand_{"agent", &clock_};
  ThreadStrand files_{"agent-files", &clock_};
  std::unique_ptr<node_agent::TaskIdentity> identity_;
  std::unique_ptr<node_agent::TaskTokens> tokens_;
  std::unique_ptr<node_agent::WorkloadServer> server_;
};

TEST_F(WorkloadApiTest, AWatcherSeesEachRotationAndNoError) {
  const KeepIdentity task = Task("job-a");
  const auto program = InTask(task, "watch 3");
  std::set<std::string> lines;
  for (int i = 0; i < 3; ++i) {
    const std::string line = program->Line();
    EXPECT_THAT(line, StartsWith(absl::StrCat("svid ", TaskSpiffeId(task), " ")));
    lines.insert(line);
    if (i == 2) break;
    Issue(task.order);
    Run([&] { server_->Renewed(task.order.id); });
  }
  // Three certificates, in one stream that never failed.
  EXPECT_THAT(lines, SizeIs(3));
  EXPECT_EQ(program->Line(), "");
}

TEST_F(WorkloadApiTest, ATaskSpeaksMutualTlsWithACapstanServer) {
  const KeepIdentity task = Task("job-a");
  EXPECT_THAT(
      InTask(task, absl::StrCat("dial ", credentials_->address(), " ", Id("/svc/credentials")))
          ->Lines(),
      ElementsAre("peer " + Id("/svc/credentials")));
  // And with no other than the one that it means.
  EXPECT_THAT(
      InTask(task, absl::StrCat("dial ", credentials_->address(), " ", Id("/svc/scheduler")))
          ->Line(),
      HasSubstr("unexpected ID"));
}

TEST_F(WorkloadApiTest, TokensAreVerifiedByTheClientAndByTheApi) {
  const KeepIdentity task = Task("job-a");
  const std::vector<std::string> lines = InTask(task, absl::StrCat("jwt ", kAudience))->Lines();
  ASSERT_THAT(lines, SizeIs(5)) << absl::StrJoin(lines, "\n");
  EXPECT_THAT(lines[0], StartsWith(absl::StrCat("jwt ", TaskSpiffeId(task), " task ")));
  EXPECT_EQ(lines[1], "valid " + TaskSpiffeId(task));
  EXPECT_THAT(lines[2], StartsWith(absl::StrCat("jwt ", AccountSpiffeId(), " service-account ")));
  EXPECT_EQ(lines[3], "valid " + AccountSpiffeId());
  EXPECT_EQ(lines[4], "refused InvalidArgument");
  // Asked again within half of their lives, the same ones come.
  EXPECT_EQ(InTask(task, absl::StrCat("jwt ", kAudience))->Lines(), lines);
  EXPECT_EQ(InTask(task, absl::StrCat("jwt ", kAudience, " ", AccountSpiffeId()))->Line(),
            lines[2]);
}

// By a JOSE library of Debian's, from nothing but the token and the issuer's URL.
TEST_F(WorkloadApiTest, TokensAreVerifiedByOpenIdDiscovery) {
  const KeepIdentity task = Task("job-a");
  const std::vector<std::string> lines = InTask(task, absl::StrCat("jwt ", kAudience))->Lines();
  ASSERT_THAT(lines, SizeIs(5)) << absl::StrJoin(lines, "\n");
  for (const int i : {0, 2}) {
    const std::vector<std::string> words = absl::StrSplit(lines[i], ' ');
    ASSERT_THAT(words, SizeIs(4));
    const std::string command =
        absl::StrCat("/usr/bin/python3 -B integration/workload/verify_token.py ", kIssuer, " ",
                     credentials_->server().openid_port(), " ", task.directory,
                     "/current/bundle.pem ", kAudience, " ", words[3], " 2>&1");
    EXPECT_THAT(Program(command).Lines(),
                ElementsAre(words[1], "projects/default/jobs/job-a", i == 0 ? "ES256" : "RS256"));
  }
}

TEST_F(WorkloadApiTest, WhoIsNoTaskIsDeniedAndRecorded) {
  Task("job-a");
  EXPECT_EQ(Program(Client("watch 1")).Line(), "error PermissionDenied");
  const audit::AuditEntry entry = audited_.Await("/SpiffeWorkloadAPI/Connect");
  EXPECT_EQ(entry.principal, "unix:0");
  EXPECT_EQ(entry.outcome_code, static_cast<int>(absl::StatusCode::kPermissionDenied));
}

TEST_F(WorkloadApiTest, WithoutTheHeaderNothingIsAnswered) {
  const auto stub = ::SpiffeWorkloadAPI::NewStub(grpc::CreateChannel(
      absl::StrCat("unix:", folder_, "/w/api.sock"), grpc::InsecureChannelCredentials()));
  const auto fetch = [&](const std::vector<std::string>& headers) {
    grpc::ClientContext context;
    rpc::SetDeadline(context, absl::Seconds(20));
    for (const std::string& value : headers) context.AddMetadata("workload.spiffe.io", value);
    ::JWTSVIDRequest request;
    request.add_audience(kAudience);
    ::JWTSVIDResponse response;
    return stub->FetchJWTSVID(&context, request, &response).error_code();
  };
  EXPECT_EQ(fetch({}), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(fetch({"false"}), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(fetch({"true", "true"}), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(fetch({"true"}), grpc::StatusCode::PERMISSION_DENIED);
}

TEST_F(WorkloadApiTest, ATaskGetsNothingOfAnotherJobs) {
  const KeepIdentity mine = Task("job-a");
  const KeepIdentity other = Task("job-b");
  EXPECT_THAT(InTask(other, "watch 1")->Line(), StartsWith("svid " + TaskSpiffeId(other)));
  EXPECT_THAT(InTask(mine, "watch 1")->Line(), StartsWith("svid " + TaskSpiffeId(mine)));
  EXPECT_EQ(InTask(other, absl::StrCat("jwt ", kAudience, " ", TaskSpiffeId(mine)))->Line(),
            "error PermissionDenied");
  const audit::AuditEntry entry = audited_.Await("/SpiffeWorkloadAPI/FetchJWTSVID");
  EXPECT_EQ(entry.principal, TaskSpiffeId(other));
  EXPECT_EQ(entry.resource, TaskSpiffeId(mine));
}

TEST_F(WorkloadApiTest, WithTheTaskEndsItsIdentity) {
  const KeepIdentity task = Task("job-a");
  const KeepIdentity other = Task("job-a", 1);
  const auto program = InTask(task, "watch 2");
  EXPECT_THAT(program->Line(), StartsWith("svid "));
  Run([&] { server_->Close(task.order.id); });
  // Its stream ends, and its processes are strangers.
  EXPECT_EQ(program->Line(), "error Unavailable");
  EXPECT_EQ(program->Line(), "error PermissionDenied");
  EXPECT_THAT(InTask(other, "watch 1")->Line(), StartsWith("svid " + TaskSpiffeId(other)));
}

TEST_F(WorkloadApiTest, ARestartOfTheAgentIsARetry) {
  const KeepIdentity task = Task("job-a");
  const auto program = InTask(task, "watch 2");
  const std::string first = program->Line();
  EXPECT_THAT(first, StartsWith("svid "));
  StopServer();
  EXPECT_EQ(program->Line(), "error Unavailable");
  StartServer(/*open=*/false);
  // Nobody is a stranger while the agent does not know its Tasks yet.
  EXPECT_EQ(program->Line(), "error Unavailable");
  Serve(task);
  server_->Open();
  std::string line = program->Line();
  // However often it has tried meanwhile.
  while (line == "error Unavailable") line = program->Line();
  EXPECT_EQ(line, first);
}

}  // namespace
}  // namespace capstan::integration
