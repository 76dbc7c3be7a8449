// Of small size, so that it stays true that it runs; what it measures then means nothing.
#include "integration/scheduler/restart_bench.h"

#include "gtest/gtest.h"
#include "libs/safe_path/testing/temporary_folder.h"

namespace capstan::scheduler {
namespace {

TEST(RestartBenchTest, PrintsItsFigures) {
  const TemporaryFolder folder;
  const auto figures =
      BenchRestartOverEtcd({.nodes = 20, .waiting = 3000, .runs = 2}, folder.path());
  ASSERT_TRUE(figures.ok()) << figures.status();
  ASSERT_EQ(figures->size(), 2u);
  EXPECT_EQ(figures->at(0).name, "scheduler.restart_s.queued3000.etcd");
  EXPECT_EQ(figures->at(1).name, "scheduler.restart_read_s.queued3000.etcd");
  for (const Figure& figure : *figures) EXPECT_GT(figure.value, 0) << figure.name;
  // A spec and a state for each Job at least.
  EXPECT_NE(figures->at(1).conditions.find("as much is read, 6"), std::string::npos)
      << figures->at(1).conditions;
}

}  // namespace
}  // namespace capstan::scheduler
