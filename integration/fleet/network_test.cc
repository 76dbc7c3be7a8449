#include "integration/fleet/network.h"

#include <signal.h>
#include <sys/wait.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/safe_path/safe_path.h"
#include "tools/capstan/dev/process.h"

namespace capstan::integration {
namespace {

class NetworkTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto unable = Network::Unable();
    if (unable.has_value()) GTEST_SKIP() << *unable;
    auto network = Network::Create(2);
    ASSERT_TRUE(network.ok()) << network.status();
    network_ = *std::move(network);
  }

  int RunOn(int host, const std::vector<std::string>& command) {
    dev::SpawnOptions spawn;
    spawn.argv = network_->On(host);
    spawn.argv.insert(spawn.argv.end(), command.begin(), command.end());
    spawn.environment = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin"};
    spawn.output_file = "/dev/null";
    const auto child = dev::Child::Spawn(spawn);
    int wait_status = -1;
    if (child.ok()) waitpid(child->id().pid, &wait_status, 0);
    return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : -1;
  }
  // One packet of UDP and its answer would need a server; bash knows how to connect by itself.
  bool Reaches(int host, const std::string& address, int port) {
    return RunOn(host, {"/usr/bin/timeout", "1", "/bin/bash", "-c",
                        absl::StrCat("exec 3<>/dev/tcp/", address, "/", port)}) == 0;
  }

  std::unique_ptr<Network> network_;
};

TEST_F(NetworkTest, HostsReachEachOtherUnlessCut) {
  dev::SpawnOptions spawn;
  spawn.argv = network_->On(1);
  spawn.argv.insert(spawn.argv.end(),
                    {"/usr/bin/python3", "-m", "http.server", "8080", "--bind", "0.0.0.0"});
  spawn.environment = {"PATH=/usr/bin:/bin"};
  spawn.output_file = "/dev/null";
  const auto server = dev::Child::Spawn(spawn);
  ASSERT_TRUE(server.ok());
  bool up = false;
  for (int i = 0; i < 100 && !up; ++i) up = Reaches(0, network_->address(1), 8080);
  EXPECT_TRUE(up);
  for (const Network::Way way :
       {Network::Way::kBoth, Network::Way::kFromHost, Network::Way::kToHost}) {
    ASSERT_TRUE(network_->Cut(1, way).ok());
    EXPECT_FALSE(Reaches(0, network_->address(1), 8080));
    ASSERT_TRUE(network_->Mend(1).ok());
    EXPECT_TRUE(Reaches(0, network_->address(1), 8080));
  }
  ASSERT_TRUE(network_->Lose(1, 100).ok());
  EXPECT_FALSE(Reaches(0, network_->address(1), 8080));
  ASSERT_TRUE(network_->Mend(1).ok());
  ASSERT_TRUE(network_->Limit(1, 1000).ok());
  EXPECT_TRUE(Reaches(0, network_->address(1), 8080));
  ASSERT_TRUE(network_->Mend(1).ok());
  // The connection is there at once, what comes through it is not: 300 ms for a word and its
  // answer.
  ASSERT_TRUE(network_->Delay(0, absl::Milliseconds(150)).ok());
  const int took = RunOn(0, {"/usr/bin/python3", "-c",
                             absl::StrCat("import time,urllib.request as u\n"
                                          "b=time.monotonic()\n"
                                          "n=len(u.urlopen('http://",
                                          network_->address(1),
                                          ":8080/').read())\n"
                                          "raise SystemExit(0 if n>0 and time.monotonic()-b>=0.3 "
                                          "else 1)")});
  EXPECT_EQ(took, 0);
  ASSERT_TRUE(network_->Mend(0).ok());
  EXPECT_TRUE(Reaches(0, network_->address(1), 8080));
  dev::SignalProcess(server->id(), SIGKILL);
  waitpid(server->id().pid, nullptr, 0);
}

}  // namespace
}  // namespace capstan::integration
