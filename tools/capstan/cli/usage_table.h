// What the Tasks of a Job use, for people: what `job top` shows.
#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_USAGE_TABLE_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_USAGE_TABLE_H_

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "proto/capstan/cli/v1/task_usage_line.pb.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "proto/capstan/telemetry/v1/stream.pb.h"
#include "tools/capstan/cli/printer.h"

namespace capstan::cli {

// The newest sample of each Task, of the newest generation that has been heard of.
class LatestUsage {
 public:
  // Takes a record of a Job's usage stream; what is no sample is skipped.
  void Add(const telemetry::v1::Record& record);

  // A line for each Task of the Job's generation, by rank, with its sample if there is one.
  std::vector<v1::TaskUsageLine> Lines(const scheduler::v1::Job& job) const;

 private:
  struct Sample {
    google::protobuf::Timestamp time;
    telemetry::v1::TaskUsage usage;
  };
  // By generation and rank.
  std::map<std::pair<int64_t, int32_t>, Sample> samples_;
};

enum class UsageOrder { kRank, kCpu, kMemory };

// The most first; Tasks without that figure last; those alike by rank.
void SortUsage(UsageOrder order, std::vector<v1::TaskUsageLine>* lines);

std::vector<Column<v1::TaskUsageLine>> UsageColumns(absl::Time now);

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_USAGE_TABLE_H_
