#include "tools/fleet_simulator/trace_reader.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace capstan::fleet_simulator {
namespace {

using ::testing::HasSubstr;

TEST(TraceReaderTest, ReadsColumnsInAnyOrderAndLinesInOrderOfTime) {
  const auto workload = ReadTrace(
      "runtime_s,queue,submit_s,gpus_per_task,tasks,note,declared_s\r\n"
      "60,b,20,8,4,x,90\r\n"
      "\n"
      "30,a,10,1,1,y,\n",
      FleetSize());
  ASSERT_TRUE(workload.ok()) << workload.status();
  ASSERT_EQ(workload->jobs.size(), 2u);
  const WorkloadJob& first = workload->jobs[0];
  EXPECT_EQ(first.submitted, absl::Seconds(10));
  EXPECT_EQ(first.declared, absl::InfiniteDuration());
  EXPECT_EQ(workload->queues[first.queue].id, "a");
  const WorkloadJob& second = workload->jobs[1];
  EXPECT_EQ(second.gpus(), 32);
  EXPECT_EQ(second.runtime, absl::Seconds(60));
  EXPECT_EQ(second.declared, absl::Seconds(90));
  EXPECT_EQ(second.checkpoint_period, absl::InfiniteDuration());
}

TEST(TraceReaderTest, NamesLineColumnAndWhatWasExpected) {
  struct Case {
    const char* csv;
    const char* message;
  };
  const Case kCases[] = {
      {"", "found 'none'"},
      {"tasks,gpus_per_task,runtime_s\n1,1,1\n", "line 1, column names: found 'no submit_s'"},
      {"submit_s,submit_s,tasks\n", "found 'submit_s', expected each once"},
      {"submit_s,tasks,gpus_per_task,runtime_s\n0,1,1\n", "line 2, fields: found '3', expected 4"},
      {"submit_s,tasks,gpus_per_task,runtime_s\n0,0,1,1\n",
       "line 2, tasks: found '0', expected a whole number, 1 to 100000"},
      {"submit_s,tasks,gpus_per_task,runtime_s\n0,1,9,1\n", "gpus_per_task: found '9'"},
      {"submit_s,tasks,gpus_per_task,runtime_s\n-1,1,1,1\n", "submit_s: found '-1'"},
      {"submit_s,tasks,gpus_per_task,runtime_s\n0,1,1,1.5\n", "runtime_s: found '1.5'"},
      {"submit_s,tasks,gpus_per_task,runtime_s,declared_s\n0,1,1,1,0\n", "declared_s: found '0'"},
  };
  for (const Case& one : kCases) {
    const auto workload = ReadTrace(one.csv, FleetSize());
    ASSERT_FALSE(workload.ok()) << one.csv;
    EXPECT_EQ(workload.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(workload.status().message()), HasSubstr(one.message));
  }
}

}  // namespace
}  // namespace capstan::fleet_simulator
