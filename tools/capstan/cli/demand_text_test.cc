#include "tools/capstan/cli/demand_text.h"

#include <string>

#include "absl/time/time.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace capstan::cli {
namespace {

std::string Text(const std::string& demand, bool wide = false) {
  scheduler::v1::UnmetDemand parsed;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(demand, &parsed));
  OutputOptions output;
  output.wide = wide;
  return DescribeDemand(parsed, absl::FromUnixSeconds(1000), output, Terminal());
}

constexpr char kClass[] =
    "classes { shapes { resources { cpu_millis: 8000 accelerators { key: 'nvidia.com/h100' value: "
    "8 } } tasks: 12 tasks_of_largest: 8 } required: LEVEL_RACK queue: 'queues/research' gangs: 2 "
    "tasks: 12 clusters: 'east' clusters: 'west' max_priority: 99 resources { cpu_millis: 96000 } "
    "reasons { reason: 'INSUFFICIENT_RESOURCES' gangs: 1 tasks: 4 } reasons { reason: 'RESERVED' "
    "gangs: 1 tasks: 8 } waiting_since { seconds: 760 } largest_job: 'projects/p/jobs/j' "
    "largest_tasks: 8 node_requirements { key: 'gpu' operator: OPERATOR_IN values: 'a' values: 'b' "
    "} }";

TEST(DemandTextTest, SaysThatThereIsNone) {
  EXPECT_EQ(Text(""), "no gang waits for more Nodes\n");
  EXPECT_EQ(
      Text("held_back { cause: 'QUEUE_LIMIT' jobs: 3 } held_back { cause: 'TOO_NEW' jobs: 1 }"),
      "no gang waits for more Nodes\nwaiting for something else: 3 QUEUE_LIMIT, 1 TOO_NEW\n");
}

TEST(DemandTextTest, ShowsALineForEachClass) {
  EXPECT_EQ(
      Text(kClass),
      "TASKS  GANGS  LARGEST  EACH NEEDS                IN ONE  QUEUE     PRIORITY  WAITING  WHY\n"
      "12     2      8        cpu 8, nvidia.com/h100 8  RACK    research  0..99     4m       "
      "INSUFFICIENT_RESOURCES 1, RESERVED 1\n");
  const std::string wide = Text(kClass, /*wide=*/true);
  EXPECT_NE(wide.find("east,west"), std::string::npos) << wide;
  EXPECT_NE(wide.find("projects/p/jobs/j"), std::string::npos) << wide;
  EXPECT_NE(wide.find("cpu 96"), std::string::npos) << wide;
  EXPECT_NE(wide.find("gpu IN [a, b]"), std::string::npos) << wide;
}

TEST(DemandTextTest, SumsWhatIsLeftOutAndCountsShapesApart) {
  const std::string text = Text(
      "classes { shapes { resources { cpu_millis: 1000 } tasks: 1 } shapes { resources { "
      "cpu_millis: 2000 } required: LEVEL_NVLINK_DOMAIN tasks: 8 } gangs: 1 tasks: 9 } "
      "rest { classes: 44 gangs: 50 tasks: 990 resources { cpu_millis: 3000 } }");
  EXPECT_NE(text.find("1 x cpu 1; 8 x cpu 2 in one NVLINK_DOMAIN"), std::string::npos) << text;
  EXPECT_NE(text.find("and 990 Tasks of 50 gangs in 44 smaller classes: cpu 3\n"),
            std::string::npos)
      << text;
}

}  // namespace
}  // namespace capstan::cli
