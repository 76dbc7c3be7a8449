// The password and the TLS key by which the services reach their etcd: they are in the files that
// the configuration names, and nowhere else, whatever goes wrong with them.
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
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
#include "grpcpp/client_context.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "gtest/gtest.h"
#include "integration/monitoring/http_request.h"
#include "integration/platform/command.h"
#include "integration/platform/test_platform.h"
#include "integration/secrets/key_material.h"
#include "integration/secrets/secret_scan.h"
#include "integration/secrets/texts.h"
#include "libs/safe_path/folder_names.h"
#include "libs/safe_path/testing/temporary_folder.h"
#include "proto/capstan/cli/v1/endpoints.pb.h"
#include "proto/etcd/authpb/auth.pb.h"
#include "proto/etcd/etcdserverpb/rpc.grpc.pb.h"
#include "proto/etcd/etcdserverpb/rpc.pb.h"
#include "tools/capstan/cli/platform.h"
#include "tools/capstan/dev/process.h"
#include "tools/testenv/etcd_server.h"

namespace capstan::integration {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr char kUser[] = "platform";
constexpr char kJob[] =
    "job_id: work\n"
    "spec:\n"
    "  task_groups:\n"
    "    - name: w\n"
    "      replicas: 1\n"
    "      argv: [/bin/true]\n"
    "      resources: {cpu: 10m, memory: 32Mi}\n";

// The services that keep their truth in etcd.
const std::vector<std::string>& Keepers() {
  static const auto& parts = *new std::vector<std::string>{"credentials", "scheduler", "telemetry",
                                                           "data_loader", "cluster_manager"};
  return parts;
}

class EtcdSecretsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto unable = TestPlatform::Unable()) GTEST_SKIP() << *unable;
    // Whatever starts below may leave cores, if it does not forbid them itself.
    getrlimit(RLIMIT_CORE, &cores_before_);
    const rlimit any = {cores_before_.rlim_max, cores_before_.rlim_max};
    setrlimit(RLIMIT_CORE, &any);
    auto etcd = testenv::EtcdServer::Start({});
    ASSERT_TRUE(etcd.ok()) << etcd.status();
    etcd_ = *std::move(etcd);
    password_ = Plant("etcd's password", {"own/password"}, RandomText(40));
    key_ = ReadFile(etcd_->key_file());
    Plant("key for etcd", {"own/key.pem"}, ScalarOfPem(key_));
    ASSERT_NO_FATAL_FAILURE(EnableUsers());
    OwnFile("password", password_ + "\n");
    OwnFile("key.pem", key_);
    platform_ = std::make_unique<TestPlatform>(absl::StrCat(
        "log_level: LOG_LEVEL_DEBUG\n"
        "monitoring: {access_log: {calls: CALLS_ALL, max_lines_per_second: 10000}}\n"
        "store:\n  etcd:\n    endpoints: [",
        absl::StrJoin(etcd_->endpoints(), ", "), "]\n    ca_file: ", etcd_->ca_file(),
        "\n    certificate_file: ", etcd_->certificate_file(), "\n    key_file: ", own_.path(),
        "/key.pem\n    server_name: ", etcd_->server_name(), "\n    user: ", kUser,
        "\n    password_file: ", own_.path(), "/password\n"));
    platform_->Up();
    ASSERT_TRUE(platform_->AwaitReady());
  }
  void TearDown() override {
    platform_ = nullptr;
    if (etcd_ != nullptr) setrlimit(RLIMIT_CORE, &cores_before_);
  }

  // Looks for a secret from now on; returns it.
  std::string Plant(const std::string& name, std::vector<std::string> homes,
                    const std::string& value) {
    scan_.Add({name, value, std::move(homes)});
    return value;
  }
  // Readable by nobody else, outside of the platform's folder.
  void OwnFile(const std::string& name, const std::string& bytes) const {
    const std::string path = absl::StrCat(own_.path(), "/", name);
    std::ofstream(path, std::ios::binary) << bytes;
    chmod(path.c_str(), 0600);
  }
  CommandResult Look(const std::string& place, CommandResult result) {
    scan_.Look(place, result.out);
    scan_.Look(place, result.err);
    return result;
  }
  CommandResult Capstan(const std::vector<std::string>& words) {
    return Look(absl::StrCat("cli ", absl::StrJoin(words, " ")), platform_->Capstan(words));
  }

  // From now on etcd asks for a user: one who may use Capstan's keys, and root.
  void EnableUsers();
  // What the running platform shows to those who ask.
  void LookAtAnswers();
  // What it has written, and its processes.
  void LookAtMachine() {
    scan_.LookAtProcesses();
    scan_.LookAtFolder("files", platform_->folder());
  }
  // Kills each service with SIGABRT and looks at what it leaves.
  void CrashEveryKeeper();
  // credentials, which needs nobody else to open its store, is started by hand in a folder of its
  // own; what it says. It must end by itself.
  std::string WhatCredentialsSays();

  SecretScan scan_;
  const TemporaryFolder own_;
  std::string password_;
  std::string key_;
  rlimit cores_before_ = {};
  std::unique_ptr<testenv::EtcdServer> etcd_;
  std::unique_ptr<TestPlatform> platform_;
};

void EtcdSecretsTest::EnableUsers() {
  grpc::SslCredentialsOptions tls;
  tls.pem_root_certs = ReadFile(etcd_->ca_file());
  tls.pem_cert_chain = ReadFile(etcd_->certificate_file());
  tls.pem_private_key = key_;
  grpc::ChannelArguments settings;
  settings.SetSslTargetNameOverride(etcd_->server_name());
  const auto stub = etcdserverpb::Auth::NewStub(
      grpc::CreateCustomChannel(etcd_->endpoints().front(), grpc::SslCredentials(tls), settings));
  const auto call = [&](auto method, const auto& request, auto response) {
    grpc::ClientContext context;
    const grpc::Status status = (stub.get()->*method)(&context, request, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
  };
  using Stub = etcdserverpb::Auth::Stub;
  for (const auto& [name, password] : std::vector<std::pair<std::string, std::string>>{
           {"root", Plant("password of etcd's root", {}, RandomText(40))}, {kUser, password_}}) {
    etcdserverpb::AuthUserAddRequest user;
    user.set_name(name);
    user.set_password(password);
    call(&Stub::UserAdd, user, etcdserverpb::AuthUserAddResponse());
    etcdserverpb::AuthRoleAddRequest role;
    role.set_name(name);
    call(&Stub::RoleAdd, role, etcdserverpb::AuthRoleAddResponse());
    etcdserverpb::AuthUserGrantRoleRequest grant;
    grant.set_user(name);
    grant.set_role(name);
    call(&Stub::UserGrantRole, grant, etcdserverpb::AuthUserGrantRoleResponse());
  }
  etcdserverpb::AuthRoleGrantPermissionRequest permission;
  permission.set_name(kUser);
  permission.mutable_perm()->set_permtype(authpb::Permission::READWRITE);
  permission.mutable_perm()->set_key("/capstan/");
  permission.mutable_perm()->set_range_end("/capstan0");
  call(&Stub::RoleGrantPermission, permission, etcdserverpb::AuthRoleGrantPermissionResponse());
  call(&Stub::AuthEnable, etcdserverpb::AuthEnableRequest(), etcdserverpb::AuthEnableResponse());
}

void EtcdSecretsTest::LookAtAnswers() {
  Capstan({"audit", "list", "--limit", "10000", "-o", "json"});
  const auto endpoints = cli::ReadEndpoints(platform_->data_dir());
  ASSERT_TRUE(endpoints.ok()) << endpoints.status();
  for (const auto& [part, endpoint] : endpoints->parts()) {
    for (const char* page : {"/metrics", "/healthz", "/readyz"}) {
      const HttpAnswer answer = HttpGet(absl::StrCat("http://", endpoint.metrics_address(), page));
      EXPECT_FALSE(answer.body.empty()) << part << page;
      scan_.Look(absl::StrCat("metrics of ", part), answer.body);
    }
  }
}

void EtcdSecretsTest::CrashEveryKeeper() {
  for (const std::string& part : Keepers()) {
    const auto process = platform_->Part(part);
    ASSERT_TRUE(process.has_value()) << part;
    const std::string limits = ReadFile(absl::StrCat("/proc/", process->pid, "/limits"));
    const std::vector<std::string> words =
        absl::StrSplit(Between(limits, "Max core file size", "bytes"), ' ', absl::SkipEmpty());
    ASSERT_EQ(words.size(), 2u) << limits;
    // A byte is no core either, and a pipe gets none.
    EXPECT_TRUE(words[0] == "0" || words[0] == "1") << part << ": " << words[0];
    const std::string folder =
        fs::read_symlink(absl::StrCat("/proc/", process->pid, "/cwd")).string();
    const std::vector<std::string> before = FolderNames(folder);
    dev::SignalProcess(*process, SIGABRT);
    ASSERT_TRUE(platform_->Await([&] {
      const auto now = platform_->Part(part);
      return now.has_value() && now->pid != process->pid;
    })) << part;
    for (const std::string& name : FolderNames(folder)) {
      if (!absl::StartsWith(name, "core") ||
          std::find(before.begin(), before.end(), name) != before.end()) {
        continue;
      }
      ADD_FAILURE() << part << " has left " << folder << "/" << name;
      scan_.LookAtFile("core of " + part, absl::StrCat(folder, "/", name));
      fs::remove(absl::StrCat(folder, "/", name));
    }
    EXPECT_THAT(ReadFile(absl::StrCat(platform_->data_dir(), "/log/", part, ".out")),
                HasSubstr("SIGABRT received at"))
        << part;
  }
  ASSERT_TRUE(platform_->AwaitReady());
}

std::string EtcdSecretsTest::WhatCredentialsSays() {
  const std::string folder = own_.path() + "/credentials";
  fs::remove_all(folder);
  fs::create_directories(folder);
  const std::string config = own_.path() + "/credentials.yaml";
  OwnFile("credentials.yaml",
          absl::StrReplaceAll(ReadFile(platform_->data_dir() + "/credentials/config.yaml"),
                              {{platform_->data_dir() + "/credentials", folder}}));
  std::vector<std::string> line = {"/usr/bin/timeout", "--kill-after=5", "60"};
  for (std::string& word : platform_->CommandLine({"serve", "credentials", "--config", config})) {
    line.push_back(std::move(word));
  }
  const CommandResult ended =
      Look("serve credentials",
           RunCommand(line, {"PATH=/usr/bin:/bin", "HOME=" + platform_->folder()}, own_.path()));
  EXPECT_NE(ended.exit_code, 0);
  EXPECT_NE(ended.exit_code, 124) << "it did not end by itself";
  scan_.LookAtFolder("credentials", folder);
  return ended.out + ended.err;
}

TEST_F(EtcdSecretsTest, PasswordAndKeyAreInTheirFilesAndNowhereElse) {
  // In use: all of it is in etcd, for this user alone.
  EXPECT_EQ(platform_->SubmitText("work", kJob).exit_code, 0);
  platform_->MustSucceed("work");
  for (const std::string& part : Keepers()) {
    EXPECT_FALSE(fs::exists(absl::StrCat(platform_->data_dir(), "/", part, "/store.sqlite")))
        << part;
  }
  EXPECT_EQ(Capstan({"admin", "check"}).exit_code, 0);
  EXPECT_EQ(Capstan({"admin", "backup", "--out", platform_->folder() + "/backup"}).exit_code, 0);
  LookAtAnswers();
  LookAtMachine();
  // etcd is away, and comes back.
  etcd_->Kill(0);
  EXPECT_TRUE(platform_->Await([&] {
    return absl::StrContains(ReadFile(platform_->data_dir() + "/log/data_loader.log"),
                             "etcd cannot be reached");
  }));
  EXPECT_NE(Capstan({"admin", "check"}).exit_code, 0);
  const absl::Status restarted = etcd_->Restart(0);
  ASSERT_TRUE(restarted.ok()) << restarted;
  ASSERT_TRUE(platform_->AwaitReady());
  ASSERT_NO_FATAL_FAILURE(CrashEveryKeeper());

  // A password that etcd does not take, to a service and to the command line.
  const std::string wrong = Plant("a wrong password", {"own/password"}, RandomText(40));
  OwnFile("password", wrong);
  platform_->KillAndAwait("scheduler");
  const std::string log = absl::StrCat(platform_->data_dir(), "/log/scheduler.");
  EXPECT_TRUE(platform_->Await([&] {
    return absl::StrContains(absl::StrCat(ReadFile(log + "log"), ReadFile(log + "out")),
                             "does not take the store's user and password");
  }));
  scan_.LookAtFolder("own", own_.path());
  const CommandResult refused = Capstan({"admin", "check"});
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_THAT(refused.out + refused.err, HasSubstr("does not take the store's user and password"));
  EXPECT_NE(Capstan({"admin", "backup", "--out", platform_->folder() + "/none"}).exit_code, 0);
  LookAtMachine();
  OwnFile("password", password_ + "\n");
  ASSERT_TRUE(platform_->AwaitReady());
  LookAtAnswers();
  platform_->Down();

  // Each in the place of the other, and files that are none: what is wrong is said by the file's
  // name.
  OwnFile("password", key_);
  EXPECT_THAT(WhatCredentialsSays(), HasSubstr("does not take the store's user and password"));
  OwnFile("password", password_ + std::string(5000, ' '));
  EXPECT_THAT(WhatCredentialsSays(), HasSubstr(own_.path() + "/password"));
  OwnFile("password", password_ + "\nmore");
  EXPECT_THAT(WhatCredentialsSays(), HasSubstr("does not take the store's user and password"));
  OwnFile("password", password_ + "\n");
  for (const std::string& none :
       {password_, std::string(), key_.substr(0, key_.size() / 2), absl::StrCat("x", key_)}) {
    OwnFile("key.pem", none);
    EXPECT_NE(WhatCredentialsSays(), "");
  }
  fs::remove(own_.path() + "/key.pem");
  EXPECT_THAT(WhatCredentialsSays(), HasSubstr(own_.path() + "/key.pem"));
  OwnFile("key.pem", key_);

  scan_.LookAtFolder("files", platform_->folder());
  scan_.LookAtFolder("own", own_.path());
  std::printf("%zu places, %d MiB\n", scan_.places(), static_cast<int>(scan_.bytes() >> 20));
  // A run that has looked at nothing does not pass.
  EXPECT_GT(scan_.places(), 300u);
  EXPECT_EQ(scan_.Strays(), "");
  EXPECT_EQ(scan_.OpenHomes(), "");
  EXPECT_TRUE(scan_.Saw("etcd's password", "own/password"));
  EXPECT_TRUE(scan_.Saw("a wrong password", "own/password"));
  EXPECT_TRUE(scan_.Saw("key for etcd", "own/key.pem"));
}

}  // namespace
}  // namespace capstan::integration
