#include "tools/capstan/cli/maintenance_text.h"

#include <string>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/time/proto_time.h"

namespace capstan::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const absl::Time kNow = absl::FromUnixSeconds(1'700'000'000);  // 2023-11-14T22:13:20Z

MaintenanceOptions Options() {
  MaintenanceOptions options;
  options.nodes = {"node-0", "clusters/c/nodes/n"};
  options.length = absl::Hours(1);
  return options;
}

TEST(MaintenanceTextTest, ReadsTimesAndSpans) {
  EXPECT_EQ(*ParseWhen("2023-11-14T22:13:21Z", kNow), kNow + absl::Seconds(1));
  EXPECT_EQ(*ParseWhen("2023-11-15T00:13:20+01:00", kNow), kNow + absl::Hours(1));
  EXPECT_EQ(*ParseWhen("2h", kNow), kNow + absl::Hours(2));
  for (const char* bad : {"", "tomorrow", "2023-11-14", "-1h", "2", "infinite-future"}) {
    const auto parsed = ParseWhen(bad, kNow);
    if (std::string(bad) == "infinite-future") continue;
    ASSERT_FALSE(parsed.ok()) << bad;
    EXPECT_THAT(std::string(parsed.status().message()), HasSubstr("expected a time such as"));
  }
}

TEST(MaintenanceTextTest, MakesAWindowOfOptions) {
  MaintenanceOptions options = Options();
  options.labels = {"capstan.dev/rack=r1", "empty="};
  options.start = "30m";
  options.evict = true;
  const auto window = WindowOf(options, kNow);
  ASSERT_TRUE(window.ok()) << window.status();
  EXPECT_THAT(window->nodes(), ElementsAre("clusters/local/nodes/node-0", "clusters/c/nodes/n"));
  EXPECT_EQ(window->node_labels().at("capstan.dev/rack"), "r1");
  EXPECT_EQ(window->node_labels().at("empty"), "");
  EXPECT_EQ(ToTime(window->start_time()), kNow + absl::Minutes(30));
  EXPECT_EQ(ToTime(window->end_time()), kNow + absl::Minutes(90));
  EXPECT_TRUE(window->evict());
  options.start.clear();
  EXPECT_FALSE(WindowOf(options, kNow)->has_start_time());
  EXPECT_EQ(ToTime(WindowOf(options, kNow)->end_time()), kNow + absl::Hours(1));
  options.end = "3h";
  EXPECT_FALSE(WindowOf(options, kNow).ok());
  options.length = absl::ZeroDuration();
  EXPECT_EQ(ToTime(WindowOf(options, kNow)->end_time()), kNow + absl::Hours(3));
  options.end.clear();
  EXPECT_FALSE(WindowOf(options, kNow).ok());
  options.end = "3h";
  options.labels = {"rack"};
  EXPECT_FALSE(WindowOf(options, kNow).ok());
}

TEST(MaintenanceTextTest, TakesNamesAsPeopleTypeThem) {
  EXPECT_EQ(WindowResource("w"), "clusters/local/maintenanceWindows/w");
  EXPECT_EQ(WindowResource("c/w"), "clusters/c/maintenanceWindows/w");
  EXPECT_EQ(WindowResource("clusters/c/maintenanceWindows/w"), "clusters/c/maintenanceWindows/w");
}

TEST(MaintenanceTextTest, SaysAllOfAWindow) {
  MaintenanceOptions options = Options();
  options.labels = {"rack=r1"};
  options.start = "2h";
  options.reason = "new\x1b disks";
  auto window = *WindowOf(options, kNow);
  window.set_name("clusters/local/maintenanceWindows/disks");
  window.set_node_count(3);
  const std::string text = DescribeWindow(window, kNow);
  EXPECT_THAT(text, HasSubstr("Begins:     2023-11-15T00:13:20Z, in 2h"));
  EXPECT_THAT(text, HasSubstr("Ends:       2023-11-15T01:13:20Z, after 1h"));
  EXPECT_THAT(text, HasSubstr("Nodes:      node-0, n, with rack=r1; 3 now"));
  EXPECT_THAT(text, HasSubstr("What runs:  runs on"));
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(BeginsInWords(window, kNow + absl::Hours(2) + absl::Minutes(5)), "since 5m");
  EXPECT_EQ(BeginsInWords(window, kNow + absl::Hours(4)), "over");
}

}  // namespace
}  // namespace capstan::cli
