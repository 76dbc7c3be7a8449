#include "tools/testenv/etcd_server.h"

#include <signal.h>

#include <filesystem>
#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "tools/testenv/server_process.h"

namespace capstan::testenv {
namespace {

TEST(EtcdServerTest, ThreeMembersOutliveTheirOwnDeaths) {
  auto started = EtcdServer::Start({.members = 3});
  ASSERT_TRUE(started.ok()) << started.status();
  std::unique_ptr<EtcdServer> etcd = *std::move(started);
  const std::string folder = etcd->folder();
  EXPECT_EQ(etcd->endpoints().size(), 3u);
  etcd->Kill(0);
  EXPECT_FALSE(etcd->IsRunning(0));
  ASSERT_TRUE(etcd->Restart(0).ok());
  for (int i = 0; i < 3; ++i) etcd->Kill(i);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(etcd->Begin(i).ok());
  for (int i = 0; i < 3; ++i) {
    const absl::Status ready = etcd->WaitReady(i);
    ASSERT_TRUE(ready.ok()) << ready;
  }
  etcd.reset();
  EXPECT_FALSE(std::filesystem::exists(folder));
}

TEST(EtcdServerTest, SeveralRunSideBySide) {
  auto first = EtcdServer::Start({});
  auto second = EtcdServer::Start({});
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_NE((*first)->endpoints(), (*second)->endpoints());
}

TEST(EtcdServerTest, AServerThatEndsIsReportedWithItsLog) {
  const auto etcd = EtcdServer::Start({.flags = {"--no-such-flag"}});
  ASSERT_EQ(etcd.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(etcd.status().message().find("no-such-flag"), std::string::npos) << etcd.status();
}

TEST(ServerProcessTest, GoesWhenItsObjectDoes) {
  auto process = ServerProcess::Start({"/bin/sleep", "1000"}, testing::TempDir() + "/log");
  ASSERT_TRUE(process.ok()) << process.status();
  const pid_t pid = (*process)->pid();
  EXPECT_EQ((*process)->WaitReady(absl::Milliseconds(10)).code(),
            absl::StatusCode::kDeadlineExceeded);
  process->reset();
  EXPECT_NE(::kill(pid, 0), 0);
}

}  // namespace
}  // namespace capstan::testenv
