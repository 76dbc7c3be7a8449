#include "tools/capstan/cli/alternative_text.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "libs/time/proto_time.h"
#include "tools/capstan/cli/human_format.h"
#include "tools/capstan/cli/terminal.h"

namespace capstan::cli {
namespace {

using scheduler::v1::SimulateChangesResponse;
using scheduler::v1::SimulatePlacementResponse;
using JobOutcome = SimulatePlacementResponse::JobOutcome;

constexpr char kName[] = "ALTERNATIVE";
// Beside the name; the last has no width.
constexpr const char* kHeaders[] = {"WAIT", "START", "DISPLACED", "START AGAIN", "JOBS"};

std::string JobsText(const SimulatePlacementResponse& response,
                     const std::vector<std::string>& names) {
  std::vector<std::string> texts;
  for (int i = 0; i < response.jobs_size(); ++i) {
    const std::string name =
        i < static_cast<int>(names.size()) ? names[i] : absl::StrCat("jobs[", i, "]");
    const std::string outcome =
        ShortEnum(JobOutcome::Outcome_Name(response.jobs(i).outcome()), "OUTCOME_");
    texts.push_back(absl::StrCat(name, " ", absl::StrReplaceAll(outcome, {{"_", " "}})));
  }
  return texts.empty() ? "-" : absl::StrJoin(texts, ", ");
}

}  // namespace

AlternativeText::AlternativeText(const std::vector<std::string>& names)
    : name_width_(sizeof(kName) - 1) {
  for (const std::string& name : names) name_width_ = std::max(name_width_, name.size());
}

std::string AlternativeText::Row(const std::vector<std::string>& cells) const {
  std::string row;
  for (size_t i = 0; i < cells.size(); ++i) {
    const size_t width = i == 0 ? name_width_ : std::string(kHeaders[i - 1]).size();
    absl::StrAppend(&row, i == 0 ? "" : "  ", cells[i],
                    std::string(width - std::min(width, cells[i].size()), ' '));
  }
  absl::StripTrailingAsciiWhitespace(&row);
  return absl::StrCat(WithoutControls(row), "\n");
}

std::string AlternativeText::Header() const {
  std::vector<std::string> cells = {kName};
  cells.insert(cells.end(), std::begin(kHeaders), std::end(kHeaders));
  return Row(cells);
}

std::string AlternativeText::Line(const v1::AlternativeLine& line,
                                  const std::vector<std::string>& jobs) const {
  if (line.has_error()) return Row({line.name(), "refused"});
  const SimulatePlacementResponse& response = line.response();
  const SimulatePlacementResponse::Others& others = response.others();
  std::string last = JobsText(response, jobs);
  if (others.left_out() > 0) {
    absl::StrAppend(&last, "; ", others.left_out(), " more that wait were not looked at");
  }
  if (response.cut_short()) absl::StrAppend(&last, "; more would happen than was followed");
  return Row({line.name(), absl::StrCat(others.waiting()), absl::StrCat(others.started()),
              absl::StrCat(others.displaced()), absl::StrCat(others.displaced_started()), last});
}

std::string AlternativeText::Summary(const SimulateChangesResponse& response,
                                     absl::Time now) const {
  const SimulateChangesResponse::Summary& summary = response.summary();
  return absl::StrCat(
      "\n", summary.simulated_count(), " simulated",
      summary.refused_count() == 0 ? "" : absl::StrCat(", ", summary.refused_count(), " refused"),
      ", all from what was stored ",
      HumanDuration(std::max(now - ToTime(response.state_time()), absl::ZeroDuration())),
      " ago; it took ", HumanShortDuration(ToDuration(summary.cpu_time())), " of one core\n");
}

}  // namespace capstan::cli
