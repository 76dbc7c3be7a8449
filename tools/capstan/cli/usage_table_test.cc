#include "tools/capstan/cli/usage_table.h"

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/time/proto_time.h"

namespace capstan::cli {
namespace {

using scheduler::v1::Job;
using telemetry::v1::Record;
using telemetry::v1::TaskUsage;
using type::v1::TaskObservation;
using v1::TaskUsageLine;

const absl::Time kThen = absl::FromUnixSeconds(1'000'000);

Record Sample(int rank, int generation, const TaskUsage& usage) {
  Record record;
  record.set_kind("usage");
  record.set_payload(usage.SerializeAsString());
  *record.mutable_event_time() = ToProto(kThen);
  (*record.mutable_attributes())["rank"] = absl::StrCat(rank);
  (*record.mutable_attributes())["generation"] = absl::StrCat(generation);
  return record;
}

TaskUsage Use(int64_t cpu_millis, int64_t memory_bytes) {
  TaskUsage usage;
  usage.set_cpu_millis(cpu_millis);
  usage.set_memory_bytes(memory_bytes);
  return usage;
}

Job Gang(int generation) {
  Job job;
  job.set_generation(generation);
  auto& group = *job.mutable_spec()->add_task_groups();
  group.set_name("w");
  group.mutable_resources()->set_cpu_millis(500);
  group.mutable_resources()->set_memory_bytes(200 << 20);
  for (int rank = 2; rank >= 0; --rank) {
    auto& task = *job.add_tasks();
    task.set_group("w");
    task.set_index(rank);
    task.set_rank(rank);
    task.set_node("clusters/local/nodes/n1");
    task.set_state(TaskObservation::STATE_RUNNING);
  }
  return job;
}

std::map<std::string, std::string> Cells(const TaskUsageLine& line, absl::Time now) {
  std::map<std::string, std::string> cells;
  for (const auto& column : UsageColumns(now)) cells[column.header] = column.cell(line).text;
  return cells;
}

TEST(LatestUsageTest, TheNewestSampleOfEachTaskAndItsPartOfWhatItAskedFor) {
  LatestUsage usage;
  usage.Add(Sample(0, 1, Use(100, 1)));
  usage.Add(Sample(0, 1, Use(600, 50 << 20)));
  const auto lines = usage.Lines(Gang(1));
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0].name(), "w-0");
  EXPECT_EQ(lines[0].usage().cpu_millis(), 600);
  EXPECT_EQ(lines[0].cpu_percent(), 120);
  EXPECT_EQ(lines[0].memory_percent(), 25);
  EXPECT_FALSE(lines[1].has_usage());
  EXPECT_FALSE(lines[1].has_cpu_percent());
}

TEST(LatestUsageTest, AnotherGenerationsSamplesAreNotShown) {
  LatestUsage usage;
  usage.Add(Sample(0, 1, Use(100, 1)));
  EXPECT_FALSE(usage.Lines(Gang(2))[0].has_usage());
  // News of the restart may come by the stream first.
  usage.Add(Sample(1, 2, Use(7, 1)));
  EXPECT_TRUE(usage.Lines(Gang(1))[0].has_usage());
  EXPECT_EQ(usage.Lines(Gang(2))[1].usage().cpu_millis(), 7);
  usage.Add(Sample(1, 3, Use(8, 1)));
  EXPECT_FALSE(usage.Lines(Gang(1))[0].has_usage()) << "long past";
}

TEST(LatestUsageTest, ATaskThatHasEndedUsesNothing) {
  LatestUsage usage;
  usage.Add(Sample(0, 1, Use(100, 1)));
  Job job = Gang(1);
  for (auto& task : *job.mutable_tasks()) task.set_state(TaskObservation::STATE_ENDED);
  EXPECT_FALSE(usage.Lines(job)[0].has_usage());
}

TEST(LatestUsageTest, WhatIsNoSampleIsSkipped) {
  LatestUsage usage;
  Record other = Sample(0, 1, Use(100, 1));
  other.set_kind("gap");
  usage.Add(other);
  Record nobody = Sample(0, 1, Use(100, 1));
  nobody.clear_attributes();
  usage.Add(nobody);
  Record garbage = Sample(0, 1, Use(100, 1));
  garbage.set_payload("\xff\xff");
  usage.Add(garbage);
  EXPECT_FALSE(usage.Lines(Gang(1))[0].has_usage());
}

TEST(SortUsageTest, TheMostFirstTheUnknownLast) {
  LatestUsage usage;
  usage.Add(Sample(1, 1, Use(100, 300)));
  usage.Add(Sample(2, 1, Use(900, 200)));
  std::vector<TaskUsageLine> lines = usage.Lines(Gang(1));
  const auto ranks = [&](UsageOrder order) {
    SortUsage(order, &lines);
    std::string text;
    for (const auto& line : lines) absl::StrAppend(&text, line.rank());
    return text;
  };
  EXPECT_EQ(ranks(UsageOrder::kCpu), "210");
  EXPECT_EQ(ranks(UsageOrder::kMemory), "120");
  EXPECT_EQ(ranks(UsageOrder::kRank), "012");
}

TEST(UsageColumnsTest, WhatIsUnknownIsEmptyAndNotZero) {
  LatestUsage usage;
  usage.Add(Sample(0, 1, Use(0, 50 << 20)));
  TaskUsage unknown;
  unknown.add_accelerators()->set_device("gpu-0");
  usage.Add(Sample(1, 1, unknown));
  TaskUsage gpus;
  gpus.add_accelerators()->set_busy_percent(90);
  gpus.add_accelerators()->set_busy_percent(40);
  usage.Add(Sample(2, 1, gpus));
  const auto lines = usage.Lines(Gang(1));
  const absl::Time now = kThen + absl::Seconds(4);
  auto idle = Cells(lines[0], now);
  EXPECT_EQ(idle["CPU"], "0m");
  EXPECT_EQ(idle["CPU%"], "0%");
  EXPECT_EQ(idle["MEMORY"], "50 MiB");
  EXPECT_EQ(idle["MEMORY%"], "25%");
  EXPECT_EQ(idle["GPU"], "");
  EXPECT_EQ(idle["PEAK"], "");
  EXPECT_EQ(idle["NODE"], "n1");
  EXPECT_EQ(idle["AGE"], "4s");
  auto nothing = Cells(lines[1], now);
  for (const char* column : {"CPU", "CPU%", "MEMORY", "MEMORY%", "GPU", "READ", "WRITTEN"}) {
    EXPECT_EQ(nothing[column], "") << column;
  }
  EXPECT_EQ(Cells(lines[2], now)["GPU"], "65%");
}

TEST(UsageColumnsTest, MemoryNearItsLimitIsRed) {
  LatestUsage usage;
  usage.Add(Sample(0, 1, Use(1, 195 << 20)));
  usage.Add(Sample(1, 1, Use(1, 170 << 20)));
  usage.Add(Sample(2, 1, Use(1, 20 << 20)));
  const auto lines = usage.Lines(Gang(1));
  std::vector<Colour> colours;
  for (const auto& column : UsageColumns(kThen)) {
    if (column.header != "MEMORY%") continue;
    for (const auto& line : lines) colours.push_back(column.cell(line).colour);
  }
  EXPECT_EQ(colours, (std::vector<Colour>{Colour::kRed, Colour::kYellow, Colour::kPlain}));
}

}  // namespace
}  // namespace capstan::cli
