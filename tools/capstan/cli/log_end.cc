#include "tools/capstan/cli/log_end.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tools/capstan/cli/job_text.h"

namespace capstan::cli {
namespace {

constexpr size_t kTasksNamed = 3;

}  // namespace

void LogEnd::OnRecord(const telemetry::v1::Record& record) {
  const auto& attributes = record.attributes();
  const auto generation = attributes.find("generation");
  const auto group = attributes.find("group");
  const auto index = attributes.find("index");
  Task task;
  // What retention put in place of lost records is of no Task.
  if (generation == attributes.end() || group == attributes.end() || index == attributes.end() ||
      !absl::SimpleAtoi(generation->second, &std::get<0>(task)) ||
      !absl::SimpleAtoi(index->second, &std::get<2>(task))) {
    return;
  }
  std::get<1>(task) = group->second;
  (IsEnd(record) ? closed_ : known_).insert(std::move(task));
}

void LogEnd::OnJob(const scheduler::v1::Job& job) {
  if (!IsFinal(job.state()) || job_ended_) return;
  job_ended_ = true;
  if (generation_.has_value() && *generation_ != job.generation()) return;
  for (const scheduler::v1::TaskStatus& task : job.tasks()) {
    // One that was never started wrote nothing.
    if (task.pid() == 0 || (rank_.has_value() && *rank_ != task.rank())) continue;
    known_.emplace(job.generation(), task.group(), task.index());
  }
}

std::string LogEnd::Describe(const std::vector<std::string>& open) {
  const size_t shown = std::min(open.size(), kTasksNamed);
  std::string text = absl::StrJoin(open.begin(), open.begin() + static_cast<int64_t>(shown), ", ");
  if (shown < open.size()) absl::StrAppend(&text, " and ", open.size() - shown, " more");
  return text;
}

std::vector<std::string> LogEnd::Open() const {
  std::vector<std::string> open;
  for (const Task& task : known_) {
    if (closed_.count(task) > 0) continue;
    open.push_back(absl::StrCat("generation ", std::get<0>(task), " ", std::get<1>(task), "-",
                                std::get<2>(task)));
  }
  return open;
}

}  // namespace capstan::cli
