#include "tools/capstan/cli/usage_table.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "libs/time/proto_time.h"
#include "tools/capstan/cli/human_format.h"
#include "tools/capstan/cli/terminal.h"

namespace capstan::cli {
namespace {

using scheduler::v1::Job;
using scheduler::v1::TaskGroup;
using scheduler::v1::TaskStatus;
using telemetry::v1::Record;
using telemetry::v1::TaskUsage;
using type::v1::TaskObservation;
using v1::TaskUsageLine;

template <typename Number>
bool ReadAttribute(const Record& record, const char* name, Number* number) {
  const auto it = record.attributes().find(name);
  return it != record.attributes().end() && absl::SimpleAtoi(it->second, number);
}

double PercentOf(int64_t part, int64_t whole) {
  return std::round(1000.0 * static_cast<double>(part) / static_cast<double>(whole)) / 10;
}

void SetRequests(const Job& job, const std::string& group, TaskUsageLine* line) {
  for (const TaskGroup& candidate : job.spec().task_groups()) {
    if (candidate.name() != group) continue;
    *line->mutable_requests() = candidate.resources();
    const auto& wanted = candidate.resources();
    if (line->usage().has_cpu_millis() && wanted.cpu_millis() > 0) {
      line->set_cpu_percent(PercentOf(line->usage().cpu_millis(), wanted.cpu_millis()));
    }
    if (line->usage().has_memory_bytes() && wanted.memory_bytes() > 0) {
      line->set_memory_percent(PercentOf(line->usage().memory_bytes(), wanted.memory_bytes()));
    }
  }
}

std::string PercentText(bool known, double percent) {
  return known ? absl::StrCat(std::llround(percent), "%") : "";
}

// The memory asked for is the limit: near it the kernel ends the Task.
Colour MemoryColour(double percent) {
  if (percent >= 95) return Colour::kRed;
  return percent >= 80 ? Colour::kYellow : Colour::kPlain;
}

std::string BytesText(bool known, int64_t bytes) { return known ? HumanBytes(bytes) : ""; }

// Mean of the devices that say; empty if none does.
std::string BusyText(const TaskUsage& usage) {
  double sum = 0;
  int known = 0;
  for (const auto& device : usage.accelerators()) {
    if (!device.has_busy_percent()) continue;
    sum += device.busy_percent();
    ++known;
  }
  return known == 0 ? "" : absl::StrCat(std::llround(sum / known), "%");
}

// Of the devices that say, together; empty if none does.
std::string DeviceMemoryText(const TaskUsage& usage) {
  int64_t sum = 0;
  bool known = false;
  for (const auto& device : usage.accelerators()) {
    if (!device.has_memory_bytes()) continue;
    sum += device.memory_bytes();
    known = true;
  }
  return BytesText(known, sum);
}

int64_t Figure(UsageOrder order, const TaskUsageLine& line) {
  const TaskUsage& usage = line.usage();
  if (order == UsageOrder::kCpu) return usage.has_cpu_millis() ? usage.cpu_millis() : -1;
  return usage.has_memory_bytes() ? usage.memory_bytes() : -1;
}

}  // namespace

void LatestUsage::Add(const Record& record) {
  Sample sample;
  std::pair<int64_t, int32_t> task;
  if (record.kind() != "usage" || !ReadAttribute(record, "generation", &task.first) ||
      !ReadAttribute(record, "rank", &task.second) ||
      !sample.usage.ParseFromString(record.payload())) {
    return;
  }
  // The Job that is asked about may still be of the generation before.
  while (!samples_.empty() && samples_.begin()->first.first < task.first - 1) {
    samples_.erase(samples_.begin());
  }
  sample.time = record.event_time();
  samples_[task] = std::move(sample);
}

std::vector<TaskUsageLine> LatestUsage::Lines(const Job& job) const {
  std::vector<TaskUsageLine> lines;
  for (const TaskStatus& task : job.tasks()) {
    TaskUsageLine line;
    line.set_name(absl::StrCat(task.group(), "-", task.index()));
    line.set_rank(task.rank());
    line.set_generation(job.generation());
    line.set_node(task.node());
    line.set_state(task.state());
    const auto sample = samples_.find({job.generation(), task.rank()});
    if (task.state() == TaskObservation::STATE_RUNNING && sample != samples_.end()) {
      *line.mutable_sample_time() = sample->second.time;
      *line.mutable_usage() = sample->second.usage;
    }
    SetRequests(job, task.group(), &line);
    lines.push_back(std::move(line));
  }
  SortUsage(UsageOrder::kRank, &lines);
  return lines;
}

void SortUsage(UsageOrder order, std::vector<TaskUsageLine>* lines) {
  std::sort(lines->begin(), lines->end(), [order](const auto& a, const auto& b) {
    if (order != UsageOrder::kRank && Figure(order, a) != Figure(order, b)) {
      return Figure(order, a) > Figure(order, b);
    }
    return a.rank() < b.rank();
  });
}

std::vector<Column<TaskUsageLine>> UsageColumns(absl::Time now) {
  using Line = TaskUsageLine;
  return {
      {"RANK", [](const Line& line) { return absl::StrCat(line.rank()); }},
      {"TASK", [](const Line& line) { return line.name(); }},
      {"NODE", [](const Line& line) { return LastSegment(line.node()); }},
      {"CPU",
       [](const Line& line) {
         return line.usage().has_cpu_millis() ? absl::StrCat(line.usage().cpu_millis(), "m")
                                              : std::string();
       }},
      {"CPU%",
       [](const Line& line) { return PercentText(line.has_cpu_percent(), line.cpu_percent()); }},
      {"MEMORY",
       [](const Line& line) {
         return BytesText(line.usage().has_memory_bytes(), line.usage().memory_bytes());
       }},
      {"MEMORY%",
       [](const Line& line) {
         return TextTable::Cell(PercentText(line.has_memory_percent(), line.memory_percent()),
                                MemoryColour(line.memory_percent()));
       }},
      {"GPU", [](const Line& line) { return BusyText(line.usage()); }},
      {"GPU MEMORY", [](const Line& line) { return DeviceMemoryText(line.usage()); }},
      {"AGE", [now](const Line& line) { return HumanAge(ToTime(line.sample_time()), now); }},
      {"STATE",
       [](const Line& line) {
         return ShortEnum(TaskObservation::State_Name(line.state()), "STATE_");
       },
       /*wide=*/true},
      {"PEAK",
       [](const Line& line) {
         return BytesText(line.usage().has_memory_peak_bytes(), line.usage().memory_peak_bytes());
       },
       /*wide=*/true},
      {"PROCESSES",
       [](const Line& line) {
         return line.usage().has_processes() ? absl::StrCat(line.usage().processes())
                                             : std::string();
       },
       /*wide=*/true},
      {"CPU TIME",
       [](const Line& line) {
         return line.usage().has_cpu_time()
                    ? HumanShortDuration(ToDuration(line.usage().cpu_time()))
                    : std::string();
       },
       /*wide=*/true},
      {"READ",
       [](const Line& line) {
         return BytesText(line.usage().has_io_read_bytes(), line.usage().io_read_bytes());
       },
       /*wide=*/true},
      {"WRITTEN",
       [](const Line& line) {
         return BytesText(line.usage().has_io_write_bytes(), line.usage().io_write_bytes());
       },
       /*wide=*/true},
  };
}

}  // namespace capstan::cli
