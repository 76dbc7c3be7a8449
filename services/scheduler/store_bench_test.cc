// Of small size, so that it stays true that it runs; what it measures then means nothing.
#include "services/scheduler/store_bench.h"

#include <set>
#include <string>

#include "gtest/gtest.h"
#include "libs/safe_path/testing/temporary_folder.h"

namespace capstan::scheduler {
namespace {

TEST(StoreBenchTest, PrintsItsFigures) {
  const TemporaryFolder folder;
  StoreBenchSizes sizes;
  sizes.nodes = 20;
  sizes.waiting = 50;
  sizes.arrivals = 40;
  sizes.runs = 2;
  sizes.explained = 3;
  sizes.leadership_ttl = absl::Seconds(1);
  const auto figures = BenchOverSqlite(sizes, folder.path());
  ASSERT_TRUE(figures.ok()) << figures.status();
  std::set<std::string> names;
  for (const Figure& figure : *figures) {
    EXPECT_GT(figure.value, 0) << figure.name;
    names.insert(figure.name);
  }
  for (const char* name : {"explain_ms", "what_if_ms", "round_p50_ms", "round_p99_ms",
                           "create_p99_ms", "takeover_s", "takeover_after_lease_s"}) {
    EXPECT_EQ(names.count("scheduler." + std::string(name) + ".queued50"), 1u) << name;
  }
  for (const char* of : {".jobs10", ".jobs10.nodes100"}) {
    EXPECT_EQ(names.count("scheduler.what_if_ms.queued50" + std::string(of)), 1u) << of;
  }
  EXPECT_EQ(names.count("scheduler.restart_s.queued50.sqlite"), 1u);
}

}  // namespace
}  // namespace capstan::scheduler
