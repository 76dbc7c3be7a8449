#include "tools/capstan/cli/simulation_text.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "libs/time/proto_time.h"
#include "tools/capstan/cli/human_format.h"
#include "tools/capstan/cli/text_table.h"

namespace capstan::cli {
namespace {

using scheduler::v1::SimulatePlacementResponse;
using JobOutcome = SimulatePlacementResponse::JobOutcome;

Colour ColourOf(JobOutcome::Outcome outcome) {
  switch (outcome) {
    case JobOutcome::OUTCOME_STARTS:
      return Colour::kGreen;
    case JobOutcome::OUTCOME_REFUSED:
      return Colour::kRed;
    default:
      return Colour::kYellow;
  }
}

std::string Jobs(int64_t count, const char* does, const char* do_) {
  return absl::StrCat(count, count == 1 ? " Job " : " Jobs ", count == 1 ? does : do_);
}

// `<14m`, with `?` behind it if it is a guess.
std::string StartsIn(const JobOutcome& outcome, absl::Time now) {
  if (!outcome.has_estimated_start_time()) return "";
  const absl::Duration wait =
      std::max(ToTime(outcome.estimated_start_time()) - now, absl::ZeroDuration());
  return absl::StrCat("<", HumanDuration(wait), outcome.estimate_assumed() ? "?" : "");
}

// The first names of so many.
template <typename Names>
std::string Named(const Names& names, int count) {
  if (names.empty()) return "";
  return WithoutControls(
      absl::StrCat(": ", absl::StrJoin(names, ", "), names.size() < count ? ", …" : ""));
}

}  // namespace

std::string DescribeSimulation(const SimulatePlacementResponse& response,
                               const std::vector<std::string>& names, bool nodes_change,
                               absl::Time now, const Terminal& terminal) {
  std::string out;
  const auto name_of = [&names](int at) {
    return at < static_cast<int>(names.size()) ? names[at] : absl::StrCat("jobs[", at, "]");
  };
  if (response.jobs_size() > 0) {
    TextTable table({"JOB", "OUTCOME", "STARTS IN", "WHY"});
    for (int i = 0; i < response.jobs_size(); ++i) {
      const JobOutcome& job = response.jobs(i);
      const std::string outcome = ShortEnum(JobOutcome::Outcome_Name(job.outcome()), "OUTCOME_");
      table.AddRow({name_of(i),
                    {absl::StrReplaceAll(outcome, {{"_", " "}}), ColourOf(job.outcome())},
                    job.outcome() == JobOutcome::OUTCOME_STARTS ? "now" : StartsIn(job, now),
                    absl::StrCat(job.summary(),
                                 job.data_assumed() ? "; its data is taken to be there" : "")});
    }
    absl::StrAppend(&out, table.Render(terminal));
    for (int i = 0; i < response.jobs_size(); ++i) {
      const JobOutcome& job = response.jobs(i);
      if (job.victim_count() == 0) continue;
      if (job.moved_count() == job.victim_count()) {
        absl::StrAppend(&out, "\n", WithoutControls(name_of(i)), " has ", job.victim_count(),
                        job.victim_count() == 1 ? " Job" : " Jobs", " moved",
                        Named(job.victims(), job.victim_count()),
                        job.victim_count() == 1 ? "; it starts" : "; they start",
                        " again at once\n");
        continue;
      }
      absl::StrAppend(&out, "\n", WithoutControls(name_of(i)), " ends ", job.victim_count(),
                      job.victim_count() == 1 ? " Job" : " Jobs",
                      Named(job.victims(), job.victim_count()), "\n");
      for (const SimulatePlacementResponse::Shrinking& one : job.shrinking()) {
        absl::StrAppend(&out, "  ", WithoutControls(one.job()), " only gives up at most ",
                        one.gives_up(), " of its ", one.tasks(), " Tasks\n");
      }
      const int64_t unnamed = int64_t{job.shrinking_count()} - job.shrinking_size();
      if (unnamed > 0) {
        absl::StrAppend(&out, "  ", Jobs(unnamed, "of others only gives", "of others only give"),
                        " up Tasks\n");
      }
    }
  }
  if (nodes_change) {
    const SimulatePlacementResponse::Others& others = response.others();
    absl::StrAppend(&out, out.empty() ? "" : "\n", "Of ",
                    Jobs(others.waiting(), "that waits", "that wait"), ", ", others.started(),
                    others.started() == 1 ? " starts" : " start",
                    Named(others.started_jobs(), others.started()), "\n");
    if (others.displaced() > 0) {
      absl::StrAppend(&out, Jobs(others.displaced(), "loses", "lose"),
                      " Tasks with the Nodes that go; ", others.displaced_started(),
                      " of them find a place again at once\n");
    }
  }
  if (response.others().left_out() > 0) {
    absl::StrAppend(&out, Jobs(response.others().left_out(), "that waits was", "that wait were"),
                    " not looked at\n");
  }
  if (response.cut_short()) absl::StrAppend(&out, "More would happen than was followed.\n");
  return out;
}

}  // namespace capstan::cli
