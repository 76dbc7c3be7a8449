// Several people with roles of their own use one platform, with two replicas of credentials over
// etcd: each may do what the role says and no more, by the command line as they have it, and goes
// on while a replica hangs.
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "integration/platform/command.h"
#include "integration/platform/store_config.h"
#include "integration/platform/test_platform.h"
#include "tools/testenv/etcd_server.h"

namespace capstan::integration {
namespace {

using scheduler::v1::Job;
using ::testing::AllOf;
using ::testing::HasSubstr;

// `capstan help exit-codes`.
constexpr int kNotFoundOrDenied = 4;

// Nobody's on a Debian machine.
constexpr int kViewer = 4001;
constexpr int kResearcher = 4002;
constexpr int kOperator = 4003;
constexpr int kNobody = 4004;

constexpr char kServe[] =
    "job_id: serve\n"
    "spec:\n"
    "  task_groups:\n"
    "    - name: w\n"
    "      replicas: 1\n"
    "      argv: [/bin/sh, -c, 'echo at-work; exec sleep 3600']\n"
    "      resources: {cpu: 10m, memory: 32Mi}\n";

constexpr char kShort[] =
    "spec:\n"
    "  task_groups:\n"
    "    - name: w\n"
    "      replicas: 1\n"
    "      argv: [/bin/true]\n"
    "      resources: {cpu: 10m, memory: 32Mi}\n";

constexpr char kChanges[] = "alternatives: [{name: cordoned, cordon: [node-0]}]\n";

class PeopleTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto unable = TestPlatform::Unable();
    if (unable.has_value()) GTEST_SKIP() << *unable;
    auto etcd = testenv::EtcdServer::Start({});
    ASSERT_TRUE(etcd.ok()) << etcd.status();
    etcd_ = *std::move(etcd);
    platform_ = std::make_unique<TestPlatform>(
        absl::StrCat("credentials: {replicas: 2}\n", StoreConfig(*etcd_)));
    platform_->Up();
    // The program lies where only its owner may go.
    program_ = platform_->folder() + "/capstan";
    {
      std::ifstream in(platform_->CommandLine({}).front(), std::ios::binary);
      std::ofstream(program_, std::ios::binary) << in.rdbuf();
    }
    chmod(program_.c_str(), 0755);
    for (const auto& [uid, role] : std::vector<std::pair<int, std::string>>{
             {kViewer, "viewer"}, {kResearcher, "researcher"}, {kOperator, "operator"}}) {
      platform_->MustCapstan({"role", "bind", absl::StrCat(uid), role,
                              uid == kOperator ? "--everywhere" : "--project=default"});
    }
    std::ofstream(platform_->folder() + "/serve.yaml") << kServe;
    std::ofstream(platform_->folder() + "/short.yaml") << kShort;
    std::ofstream(platform_->folder() + "/changes.yaml") << kChanges;
  }

  // Runs a command as this user of the machine, at most a minute; `out` has errors, too.
  CommandResult As(int uid, const std::vector<std::string>& arguments) {
    const std::string home = absl::StrCat(platform_->folder(), "/home-", uid);
    if (mkdir(home.c_str(), 0700) == 0) {
      EXPECT_EQ(chown(home.c_str(), uid, uid), 0);
    }
    std::vector<std::string> argv = {"/usr/bin/timeout",
                                     "60",
                                     "/usr/bin/setpriv",
                                     absl::StrCat("--reuid=", uid),
                                     absl::StrCat("--regid=", uid),
                                     "--clear-groups",
                                     program_,
                                     "--data-dir",
                                     platform_->data_dir()};
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    CommandResult result = RunCommand(argv, {"PATH=/usr/bin:/bin", "HOME=" + home, "LANG=C.UTF-8"},
                                      platform_->folder());
    result.out += result.err;
    return result;
  }
  void May(int uid, const std::string& line) {
    const CommandResult result = As(uid, absl::StrSplit(line, ' '));
    EXPECT_EQ(result.exit_code, 0) << uid << " capstan " << line << "\n" << result.out;
  }
  void MayNot(int uid, const std::string& line, absl::string_view permission) {
    const CommandResult result = As(uid, absl::StrSplit(line, ' '));
    EXPECT_EQ(result.exit_code, kNotFoundOrDenied) << uid << " capstan " << line << "\n"
                                                   << result.out;
    EXPECT_THAT(result.out, HasSubstr(std::string(permission))) << uid << " capstan " << line;
  }
  std::string File(absl::string_view name) const {
    return absl::StrCat(platform_->folder(), "/", name, ".yaml");
  }

  std::unique_ptr<testenv::EtcdServer> etcd_;
  std::unique_ptr<TestPlatform> platform_;
  std::string program_;
};

TEST_F(PeopleTest, EachMayDoWhatTheRoleSaysWithOneReplicaToo) {
  May(kResearcher, absl::StrCat("job submit ", File("serve")));
  ASSERT_TRUE(
      platform_->Await([&] { return platform_->Get("serve").state() == Job::STATE_RUNNING; }));

  // A viewer looks, and gets into nothing.
  May(kViewer, "job list");
  May(kViewer, "job get serve");
  EXPECT_TRUE(platform_->Await(
      [&] { return absl::StrContains(As(kViewer, {"job", "logs", "serve"}).out, "at-work"); }));
  MayNot(kViewer, "job exec serve -- true", "jobs.exec");
  MayNot(kViewer, "job port-forward serve :8080", "jobs.exec");
  MayNot(kViewer, absl::StrCat("job submit ", File("short"), " --job-id other"), "jobs.create");
  MayNot(kViewer, "job cancel serve", "jobs.cancel");
  MayNot(kViewer, "job hold serve", "jobs.update");
  MayNot(kViewer, "job simulate --cordon node-0", "jobs.simulate");
  MayNot(kViewer, absl::StrCat("node simulate ", File("changes")), "jobs.simulate");
  MayNot(kViewer, "subscription create mine serve", "subscriptions.create");
  MayNot(kViewer, "queue update default --weight 2", "queues.update");
  MayNot(kViewer, "node cordon node-0", "nodes.cordon");
  MayNot(kViewer, "node maintenance create w --all-nodes --for 1h", "maintenanceWindows.create");
  MayNot(kViewer, "node maintenance delete w", "maintenanceWindows.delete");
  May(kViewer, "node maintenance list");
  MayNot(kViewer, "node demand", "demand.get");
  MayNot(kViewer, "node order list", "capacityOrders.get");
  MayNot(kViewer, absl::StrCat("role bind ", kViewer, " admin"), "roleBindings.create");
  MayNot(kViewer, "audit list", "auditRecords.list");

  // A researcher works, and runs nothing of the fleet.
  const CommandResult ran = As(kResearcher, {"job", "exec", "serve", "--", "echo", "inside"});
  EXPECT_EQ(ran.exit_code, 0) << ran.out;
  EXPECT_THAT(ran.out, HasSubstr("inside"));
  May(kResearcher, "subscription create mine serve");
  MayNot(kViewer, "subscription read mine", "subscriptions.read");
  MayNot(kResearcher, "queue update default --weight 2", "queues.update");
  MayNot(kResearcher, "access join-token /node/local/n", "joinTokens.create");
  MayNot(kResearcher, "access deny /person/0 --reason no", "identities.deny");

  // An operator runs the fleet, and nobody's Jobs.
  May(kOperator, "queue update default --weight 2");
  May(kOperator, "job simulate --cordon node-0");
  May(kOperator, absl::StrCat("node simulate --on-leader ", File("changes")));
  May(kOperator, "node demand");
  May(kOperator, "node maintenance create w --all-nodes --start 300h --for 1h");
  May(kOperator, "node maintenance delete w");
  MayNot(kOperator, "job exec serve -- true", "jobs.exec");
  MayNot(kOperator, "job cancel serve", "jobs.cancel");
  MayNot(kOperator, "job update serve --priority 1", "jobs.update");

  // Who has no role is known and may do nothing.
  May(kNobody, "access whoami");
  MayNot(kNobody, "job list", "jobs.list");
  MayNot(kNobody, "job exec serve -- true", "jobs.get");

  // Each refusal is recorded, with who and what.
  const std::string audit = platform_->MustCapstan({"audit", "list", "--limit", "1000"});
  EXPECT_THAT(audit, AllOf(HasSubstr("refused"), HasSubstr(absl::StrCat("/person/", kViewer))));
  platform_->MustCapstan({"audit", "verify"});

  // The replica that people and joining Nodes talk to hangs: what is issued goes on.
  platform_->Signal("credentials", SIGSTOP);
  May(kResearcher, absl::StrCat("job submit ", File("short"), " --job-id meanwhile"));
  EXPECT_TRUE(platform_->Await(
      [&] { return absl::StrContains(As(kViewer, {"job", "get", "meanwhile"}).out, "SUCCEEDED"); },
      absl::Seconds(120)));
  // And so does policy: what is taken away is gone for all.
  May(kViewer, "job list");
  platform_->MustCapstan({"role", "unbind", absl::StrCat("viewer-person-", kViewer)});
  EXPECT_TRUE(platform_->Await(
      [&] { return As(kViewer, {"job", "list"}).exit_code == kNotFoundOrDenied; }));
  May(kResearcher, "job list");
  platform_->Signal("credentials", SIGCONT);
  EXPECT_TRUE(platform_->AwaitReady());
  MayNot(kViewer, "job list", "jobs.list");
}

}  // namespace
}  // namespace capstan::integration
