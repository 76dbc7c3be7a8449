#include "tools/fleet_simulator/trace_reader.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"

namespace capstan::fleet_simulator {
namespace {

// A hundred years: sums of durations stay far from overflow.
constexpr int64_t kMaxSeconds = int64_t{100} * 366 * 24 * 3600;
constexpr int64_t kMaxTasks = 100'000;
constexpr size_t kMaxQueues = 1000;
constexpr int kGuaranteedPercent = 60;

absl::Status Wrong(int line, absl::string_view column, absl::string_view found,
                   absl::string_view expected) {
  return status::Error(absl::StatusCode::kInvalidArgument, "INVALID_TRACE",
                       absl::StrCat("line ", line, ", ", column, ": found '", found.substr(0, 40),
                                    "', expected ", expected));
}

class TraceReader {
 public:
  explicit TraceReader(const FleetSize& fleet) { workload_.fleet = fleet; }

  absl::StatusOr<Workload> Read(absl::string_view csv) {
    int number = 0;
    for (absl::string_view line : absl::StrSplit(csv, '\n')) {
      ++number;
      absl::ConsumeSuffix(&line, "\r");
      if (line.empty()) continue;
      const std::vector<absl::string_view> fields = absl::StrSplit(line, ',');
      if (columns_.empty()) {
        CAPSTAN_RETURN_IF_ERROR(ReadHeader(number, fields));
        continue;
      }
      if (fields.size() != column_count_) {
        return Wrong(number, "fields", absl::StrCat(fields.size()),
                     absl::StrCat(column_count_, ", as in the first line"));
      }
      if (workload_.jobs.size() >= kMaxTraceJobs) {
        return Wrong(number, "lines", "more", absl::StrCat("at most ", kMaxTraceJobs));
      }
      CAPSTAN_RETURN_IF_ERROR(ReadJob(number, fields));
    }
    if (workload_.jobs.empty()) {
      return Wrong(number, "jobs", "none", "a line with column names and a line for each Job");
    }
    return Finish();
  }

 private:
  absl::Status ReadHeader(int line, const std::vector<absl::string_view>& names) {
    column_count_ = names.size();
    for (size_t c = 0; c < names.size(); ++c) {
      if (!columns_.emplace(names[c], c).second) {
        return Wrong(line, "column names", names[c], "each once");
      }
    }
    for (const char* needed : {"submit_s", "tasks", "gpus_per_task", "runtime_s"}) {
      if (!columns_.contains(needed)) {
        return Wrong(line, "column names", absl::StrCat("no ", needed),
                     "submit_s, tasks, gpus_per_task and runtime_s");
      }
    }
    return absl::OkStatus();
  }

  // Empty where the column is absent.
  absl::string_view Field(const std::vector<absl::string_view>& fields,
                          absl::string_view column) const {
    const auto found = columns_.find(column);
    return found == columns_.end() ? absl::string_view() : fields[found->second];
  }

  absl::StatusOr<int64_t> Number(int line, const std::vector<absl::string_view>& fields,
                                 absl::string_view column, int64_t low, int64_t high) const {
    const absl::string_view field = Field(fields, column);
    int64_t value = 0;
    if (!absl::SimpleAtoi(field, &value) || value < low || value > high) {
      return Wrong(line, column, field, absl::StrCat("a whole number, ", low, " to ", high));
    }
    return value;
  }

  absl::StatusOr<absl::Duration> OptionalSeconds(int line,
                                                 const std::vector<absl::string_view>& fields,
                                                 absl::string_view column) const {
    if (Field(fields, column).empty()) return absl::InfiniteDuration();
    CAPSTAN_ASSIGN_OR_RETURN(const int64_t seconds, Number(line, fields, column, 1, kMaxSeconds));
    return absl::Seconds(seconds);
  }

  absl::Status ReadJob(int line, const std::vector<absl::string_view>& fields) {
    WorkloadJob job;
    CAPSTAN_ASSIGN_OR_RETURN(const int64_t submit,
                             Number(line, fields, "submit_s", 0, kMaxSeconds));
    CAPSTAN_ASSIGN_OR_RETURN(const int64_t tasks, Number(line, fields, "tasks", 1, kMaxTasks));
    CAPSTAN_ASSIGN_OR_RETURN(const int64_t gpus, Number(line, fields, "gpus_per_task", 1,
                                                        workload_.fleet.gpus_per_node));
    CAPSTAN_ASSIGN_OR_RETURN(const int64_t runtime,
                             Number(line, fields, "runtime_s", 1, kMaxSeconds));
    if (!Field(fields, "priority").empty()) {
      CAPSTAN_ASSIGN_OR_RETURN(const int64_t priority,
                               Number(line, fields, "priority", -1'000'000, 1'000'000));
      job.priority = static_cast<int32_t>(priority);
    }
    CAPSTAN_ASSIGN_OR_RETURN(job.declared, OptionalSeconds(line, fields, "declared_s"));
    CAPSTAN_ASSIGN_OR_RETURN(job.checkpoint_period,
                             OptionalSeconds(line, fields, "checkpoint_period_s"));
    job.submitted = absl::Seconds(submit);
    job.tasks = static_cast<int>(tasks);
    job.gpus_per_task = static_cast<int>(gpus);
    job.runtime = absl::Seconds(runtime);
    CAPSTAN_ASSIGN_OR_RETURN(job.queue, QueueOf(line, Field(fields, "queue")));
    workload_.jobs.push_back(job);
    return absl::OkStatus();
  }

  absl::StatusOr<int> QueueOf(int line, absl::string_view name) {
    const std::string id = name.empty() ? "default" : std::string(name);
    const auto found = queues_.find(id);
    if (found != queues_.end()) return found->second;
    if (queues_.size() >= kMaxQueues || id.size() > 63) {
      return Wrong(line, "queue", id, absl::StrCat("at most ", kMaxQueues, " names of 63 bytes"));
    }
    const auto queue = static_cast<int>(queues_.size());
    queues_.emplace(id, queue);
    workload_.queues.push_back({id, 100, 0});
    return queue;
  }

  Workload Finish() {
    const auto count = static_cast<int64_t>(workload_.queues.size());
    for (WorkloadQueue& queue : workload_.queues) {
      queue.guaranteed_gpus = workload_.fleet.gpus() * kGuaranteedPercent / 100 / count;
    }
    std::stable_sort(
        workload_.jobs.begin(), workload_.jobs.end(),
        [](const WorkloadJob& a, const WorkloadJob& b) { return a.submitted < b.submitted; });
    return std::move(workload_);
  }

  Workload workload_;
  size_t column_count_ = 0;
  absl::flat_hash_map<std::string, size_t> columns_;
  absl::flat_hash_map<std::string, int> queues_;
};

}  // namespace

absl::StatusOr<Workload> ReadTrace(absl::string_view csv, const FleetSize& fleet) {
  return TraceReader(fleet).Read(csv);
}

}  // namespace capstan::fleet_simulator
