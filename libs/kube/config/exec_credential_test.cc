// If these fail, a plugin that misbehaves takes the client with it, or runs more than it should.
#include "libs/kube/config/exec_credential.h"

#include <sys/stat.h>

#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/kube/config/client_config.h"
#include "libs/kube/config/environment.h"
#include "libs/kube/config/plugin_process.h"
#include "libs/kube/transport/credential_source.h"
#include "libs/safe_path/testing/temporary_folder.h"
#include "libs/status/error.h"
#include "libs/time/clock.h"
#include "libs/time/simulated_clock.h"
#include "libs/time/system_clock.h"

namespace capstan::kube {
namespace {

constexpr char kHead[] =
    R"({"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{)";

absl::StatusOr<Credential> Get(CredentialSource* source) {
  absl::StatusOr<Credential> answer;
  absl::Notification done;
  source->Get([&](absl::StatusOr<Credential> credential) {
    answer = std::move(credential);
    done.Notify();
  });
  done.WaitForNotification();
  return answer;
}

class ExecCredentialTest : public testing::Test {
 protected:
  ExecCredentialTest() {
    config_.server = "https://k";
    environment_.variables["PATH"] = absl::StrCat("relative:", folder_.path(), ":/usr/bin:/bin");
    environment_.variables["RUNS"] = Path("runs");
    mkfifo(Path("held").c_str(), 0600);
  }

  std::string Path(const std::string& name) { return absl::StrCat(folder_.path(), "/", name); }
  // A shell script that first counts its run.
  std::unique_ptr<CredentialSource> Make(const std::string& script, const Clock* clock,
                                         PluginLimits limits = {}) {
    std::ofstream(Path("plugin")) << "#!/bin/sh\necho run >> \"$RUNS\"\n" << script << "\n";
    chmod(Path("plugin").c_str(), 0700);
    ExecPlugin plugin;
    plugin.api_version = "client.authentication.k8s.io/v1";
    plugin.command = command_;
    plugin.args = {"a b", "$HOME"};
    plugin.env = {{"ADDED", "added"}};
    plugin.install_hint = "Get it from the shop.";
    config_.credential = plugin;
    return MakeExecCredential(config_, environment_, limits, clock);
  }
  int Runs() {
    std::ifstream in(Path("runs"));
    int runs = 0;
    for (std::string line; std::getline(in, line);) ++runs;
    return runs;
  }
  static std::string Print(absl::string_view status) {
    return absl::StrCat("printf '%s' '", kHead, status, "}}'");
  }

  TemporaryFolder folder_;
  Environment environment_;
  ClientConfig config_;
  std::string command_ = "plugin";
  SystemClock real_;
  SimulatedClock simulated_{Now{absl::FromUnixSeconds(1'900'000'000), BootTime()}};
};

TEST_F(ExecCredentialTest, RunsWithItsArgumentsAndVariablesAndNoShell) {
  const auto source =
      Make(absl::StrCat(
               "[ \"$#-$1-$2-$ADDED\" = '2-a b-$HOME-added' ] || exit 3\n"
               "case \"$KUBERNETES_EXEC_INFO\" in *'\"interactive\":false'*) ;; *) exit 4;; esac\n"
               "[ -z \"$(cat)\" ] || exit 5\n",
               Print("\"token\":\"t\"")),
           &real_);
  const auto credential = Get(source.get());
  ASSERT_TRUE(credential.ok()) << credential.status();
  EXPECT_EQ(credential->bearer_token, "t");
}

TEST_F(ExecCredentialTest, OneRunServesAllAndIsKeptUntilItEndsOrIsRejected) {
  const auto source = Make(absl::StrCat("n=$(wc -l < \"$RUNS\")\nprintf '%s' '", kHead,
                                        "\"token\":\"t'$n'\",\"expirationTimestamp\":"
                                        "\"2030-03-17T18:00:00Z\"}}'"),
                           &simulated_);
  constexpr int kAsk = 20;
  absl::BlockingCounter done(kAsk);
  absl::Mutex mutex;
  std::vector<std::string> tokens;
  for (int i = 0; i < kAsk; ++i) {
    source->Get([&](absl::StatusOr<Credential> credential) {
      absl::MutexLock lock(&mutex);
      tokens.push_back(credential.ok() ? credential->bearer_token
                                       : std::string(credential.status().message()));
      done.DecrementCount();
    });
  }
  done.Wait();
  EXPECT_EQ(tokens, std::vector<std::string>(kAsk, "t1"));
  source->Rejected({"t1", "", ""});
  EXPECT_EQ(Get(source.get())->bearer_token, "t2");
  // The wall clock reaches the minute before the end.
  simulated_.StepWall(
      absl::FromCivil(absl::CivilSecond(2030, 3, 17, 17, 59, 1), absl::UTCTimeZone()) -
      simulated_.Read().wall);
  EXPECT_EQ(Get(source.get())->bearer_token, "t3");
  EXPECT_EQ(Runs(), 3);
}

TEST_F(ExecCredentialTest, FailuresSayWhatThePluginSaidAndWait) {
  const auto source =
      Make("echo SECRET\nfor i in 1 2 3 4 5 6; do printf 'line\\033 %d\\n' $i >&2; done\nexit 7",
           &simulated_);
  for (int i = 0; i < 3; ++i) {
    const absl::Status failed = Get(source.get()).status();
    EXPECT_EQ(status::Reason(failed), "KUBE_PLUGIN_FAILED");
    EXPECT_TRUE(absl::StrContains(failed.message(), "exit status 7; it said: line  2 / "))
        << failed;
    EXPECT_TRUE(absl::EndsWith(failed.message(), "line  6")) << failed;
    EXPECT_FALSE(absl::StrContains(failed.ToString(), "SECRET")) << failed;
  }
  EXPECT_EQ(Runs(), 1);
  simulated_.Advance(absl::Seconds(1));
  EXPECT_FALSE(Get(source.get()).ok());
  EXPECT_EQ(Runs(), 2);
}

TEST_F(ExecCredentialTest, RefusesBadOutput) {
  struct Case {
    std::string script;
    std::string reason;
  };
  const std::vector<Case> table = {
      {"echo SECRET", "KUBE_PLUGIN_BAD_OUTPUT"},
      {"echo '{\"kind\":\"Pod\",\"status\":{\"token\":\"SECRET\"}}'", "KUBE_PLUGIN_BAD_OUTPUT"},
      {Print("\"token\":\"SECRET\",\"expirationTimestamp\":\"2001-01-01T00:00:00Z\""),
       "KUBE_PLUGIN_BAD_OUTPUT"},
      {"exec yes SECRET", "KUBE_PLUGIN_BAD_OUTPUT"},
      {"kill -9 $$", "KUBE_PLUGIN_FAILED"},
  };
  for (const Case& wrong : table) {
    const auto source = Make(wrong.script, &real_);
    const absl::Status failed = Get(source.get()).status();
    EXPECT_EQ(status::Reason(failed), wrong.reason) << failed;
    EXPECT_FALSE(absl::StrContains(failed.ToString(), "SECRET")) << failed;
  }
}

TEST_F(ExecCredentialTest, AHangingPluginIsKilledWithItsChildren) {
  PluginLimits limits;
  limits.time = absl::Milliseconds(300);
  const auto source = Make("sleep 1000 & sleep 1000", &real_, limits);
  EXPECT_EQ(status::Reason(Get(source.get()).status()), "KUBE_PLUGIN_TIMED_OUT");
}

TEST_F(ExecCredentialTest, ShutdownEndsARunAndAnswersAll) {
  auto source = Make(absl::StrCat("echo up > ", Path("held"), "\nsleep 1000"), &simulated_);
  absl::Notification done;
  absl::Status answer;
  source->Get([&](absl::StatusOr<Credential> credential) {
    answer = credential.status();
    done.Notify();
  });
  // Opens once the plugin runs.
  std::string line;
  std::ifstream held(Path("held"));
  std::getline(held, line);
  EXPECT_EQ(line, "up");
  source.reset();
  ASSERT_TRUE(done.HasBeenNotified());
  EXPECT_EQ(status::Reason(answer), "KUBE_CREDENTIAL_STOPPED");
}

TEST_F(ExecCredentialTest, AMissingCommandShowsTheHint) {
  command_ = "no-such-plugin";
  const auto source = Make("", &real_);
  const absl::Status missing = Get(source.get()).status();
  EXPECT_EQ(status::Reason(missing), "KUBE_PLUGIN_MISSING");
  EXPECT_TRUE(absl::EndsWith(missing.message(), "Get it from the shop.")) << missing;
}

}  // namespace
}  // namespace capstan::kube
