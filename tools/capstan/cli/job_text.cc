#include "tools/capstan/cli/job_text.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "libs/resource/quantity.h"
#include "libs/time/proto_time.h"
#include "tools/capstan/cli/human_format.h"

namespace capstan::cli {
namespace {

using scheduler::v1::DataProgress;
using scheduler::v1::ExplainJobResponse;
using scheduler::v1::Job;
using scheduler::v1::TaskGroup;
using scheduler::v1::TaskStatus;
using scheduler::v1::Topology;
using type::v1::TaskObservation;

constexpr int kMaxDisruptionsShown = 5;

Colour ColourOf(Job::State state) {
  switch (state) {
    case Job::STATE_RUNNING:
    case Job::STATE_SUCCEEDED:
      return Colour::kGreen;
    case Job::STATE_FAILED:
      return Colour::kRed;
    case Job::STATE_QUEUED:
    case Job::STATE_PREPARING:
    case Job::STATE_STOPPING:
      return Colour::kYellow;
    default:
      return Colour::kDim;
  }
}

std::string StateName(Job::State state) { return ShortEnum(Job::State_Name(state), "STATE_"); }

// `STARTED (held)`: that it does not start again, where the reason is another.
std::string ReasonText(const Job& job) {
  const bool says_so = !job.hold() || job.reason() == "HELD" || IsFinal(job.state());
  return says_so ? job.reason() : absl::StrCat(job.reason(), " (held)");
}

std::string TaskStateName(const TaskStatus& task) {
  if (task.state() == TaskObservation::STATE_UNSPECIFIED) return "WAITING";
  return ShortEnum(TaskObservation::State_Name(task.state()), "STATE_");
}

// `8`; of an elastic gang `6 of 4..8`, or `4..8` while it has no place.
std::string SizeText(const Job& job, int64_t placed, int64_t least, int64_t most) {
  if (least == most) return absl::StrCat(most);
  const bool has_place = job.state() != Job::STATE_QUEUED && placed > 0;
  return absl::StrCat(has_place ? absl::StrCat(placed, " of ") : "", least, "..", most);
}

// Sections that a generation may be without: those before them are as many as their parent needs.
std::set<std::string> OptionalSections(const Job& job) {
  std::set<std::string> optional;
  std::map<std::string, int> inner;  // by parent
  std::map<std::string, int> least = {{"", job.spec().min_sections()}};
  for (const scheduler::v1::Section& one : job.spec().sections()) {
    const int needed = least[one.parent()];
    if (++inner[one.parent()] > needed && needed > 0) optional.insert(one.name());
    least[one.name()] = one.min_sections();
  }
  return optional;
}

// The section, and those around it, the innermost first.
std::vector<std::string> SectionsAround(const Job& job, std::string section) {
  std::vector<std::string> all;
  const auto& sections = job.spec().sections();
  while (!section.empty() && all.size() < static_cast<size_t>(sections.size())) {
    all.push_back(section);
    const auto at = std::find_if(sections.begin(), sections.end(),
                                 [&section](const auto& one) { return one.name() == section; });
    section = at == sections.end() ? "" : at->parent();
  }
  return all;
}

// Where it has any.
int64_t LeastOf(const TaskGroup& group) {
  return group.min_replicas() == 0 ? group.replicas() : group.min_replicas();
}

std::string TasksText(const Job& job) {
  int64_t least = 0;
  int64_t most = 0;
  const std::set<std::string> optional = OptionalSections(job);
  for (const TaskGroup& group : job.spec().task_groups()) {
    const std::vector<std::string> around = SectionsAround(job, group.section());
    const bool is_needed = std::none_of(around.begin(), around.end(), [&](const auto& section) {
      return optional.count(section) > 0;
    });
    least += is_needed ? LeastOf(group) : 0;
    most += group.replicas();
  }
  const std::string tasks = SizeText(job, job.tasks_size(), least, most);
  return job.has_array() ? absl::StrCat(job.array().size(), " x ", tasks) : tasks;
}

std::string LevelText(Topology::Level level) {
  return absl::StrReplaceAll(ShortEnum(Topology::Level_Name(level), "LEVEL_"), {{"_", " "}});
}

// `, in one RACK`.
std::string WithinText(const Topology& topology) {
  if (topology.required() == Topology::LEVEL_UNSPECIFIED) return "";
  return absl::StrCat(", in one ", LevelText(topology.required()));
}

// Two blanks for each section around what is in `section`.
std::string Indent(const Job& job, const std::string& section) {
  return std::string(2 * SectionsAround(job, section).size(), ' ');
}

std::string GroupText(const Job& job, const TaskGroup& group) {
  const int64_t placed =
      std::count_if(job.tasks().begin(), job.tasks().end(),
                    [&group](const TaskStatus& task) { return task.group() == group.name(); });
  std::string slices;
  for (const scheduler::v1::TaskSlice& slice : group.slices()) {
    absl::StrAppend(&slices, slices.empty() ? ", each " : ", of these each ", slice.size(),
                    " in one ", LevelText(slice.level()));
  }
  return absl::StrCat(group.name(), ": ", SizeText(job, placed, LeastOf(group), group.replicas()),
                      " x ", DescribeResources(group.resources()), WithinText(group.topology()),
                      slices, ", ", absl::StrJoin(group.argv(), " "));
}

void AddField(std::string* out, const char* name, const std::string& value) {
  if (value.empty()) return;
  absl::StrAppend(out, name, ":", std::string(14 - std::min<size_t>(13, strlen(name) + 1), ' '),
                  WithoutControls(value), "\n");
}

// `, optional`, and whether what has a place is without it.
std::string OptionalText(const Job& job, const std::string& section) {
  if (OptionalSections(job).count(section) == 0) return "";
  const auto is_in_it = [&](const TaskStatus& task) {
    const auto& groups = job.spec().task_groups();
    return std::any_of(groups.begin(), groups.end(), [&](const TaskGroup& group) {
      const std::vector<std::string> around = SectionsAround(job, group.section());
      return group.name() == task.group() &&
             std::find(around.begin(), around.end(), section) != around.end();
    });
  };
  const bool is_missing = job.state() != Job::STATE_QUEUED && job.tasks_size() > 0 &&
                          std::none_of(job.tasks().begin(), job.tasks().end(), is_in_it);
  return is_missing ? ", optional, not there" : ", optional";
}

// What is in `section` as a tree: each section, then what is in it. Sections that a service put in a
// circle, or gave one name, are shown once.
void AddTree(const Job& job, const std::string& section, std::set<std::string>* shown,
             std::string* out) {
  if (!shown->insert(section).second) return;
  const std::string indent = Indent(job, section);
  for (const TaskGroup& group : job.spec().task_groups()) {
    if (group.section() == section) AddField(out, "Group", indent + GroupText(job, group));
  }
  for (const scheduler::v1::Section& inner : job.spec().sections()) {
    if (inner.parent() != section || shown->count(inner.name()) > 0) continue;
    AddField(out, "Section",
             absl::StrCat(indent, inner.name(), WithinText(inner.topology()),
                          OptionalText(job, inner.name())));
    AddTree(job, inner.name(), shown, out);
  }
}

std::string DataLine(const DataProgress& data) {
  std::string line = absl::StrCat("data ", Percent(data.loaded_bytes(), data.total_bytes()), " (",
                                  HumanBytes(data.loaded_bytes()));
  if (data.total_bytes() > 0) absl::StrAppend(&line, " of ", HumanBytes(data.total_bytes()));
  if (data.bytes_per_second() > 0) {
    absl::StrAppend(&line, ", ",
                    HumanBytes(static_cast<int64_t>(std::min(data.bytes_per_second(), 9e18))),
                    "/s");
  }
  if (data.has_eta()) absl::StrAppend(&line, ", ETA ", HumanDuration(ToDuration(data.eta())));
  return absl::StrCat(line, ")");
}

// `<14m`, with `?` behind it if the estimate is a guess; empty if there is none.
std::string StartsIn(const Job& job, absl::Time now) {
  if (!job.has_estimated_start_time()) return "";
  const absl::Duration wait =
      std::max(ToTime(job.estimated_start_time()) - now, absl::ZeroDuration());
  return absl::StrCat("<", HumanDuration(wait), job.estimate_assumed() ? "?" : "");
}

// `10 elements, 3 at once: 5 have ended, 4 of them with success`.
std::string ArrayLine(const Job& job) {
  std::string line = absl::StrCat(job.array().size(), " elements");
  if (job.spec().array().max_parallel() > 0) {
    absl::StrAppend(&line, ", ", job.spec().array().max_parallel(), " at once");
  }
  return absl::StrCat(line, ": ", job.array().ended(), " have ended, ", job.array().succeeded(),
                      " of them with success");
}

// `2 RUNNING, 2 PREPARING`.
std::string TaskCounts(const Job& job) {
  std::map<TaskObservation::State, int> counts;
  std::map<TaskObservation::State, std::string> names;
  for (const TaskStatus& task : job.tasks()) {
    ++counts[task.state()];
    names[task.state()] = TaskStateName(task);
  }
  std::vector<std::string> parts;
  for (const auto& [state, count] : counts) parts.push_back(absl::StrCat(count, " ", names[state]));
  return absl::StrJoin(parts, ", ");
}

std::string Amount(const std::string& type, int64_t amount) {
  if (type == "cpu") return resource::FormatMillis(amount);
  if (type == "memory") return HumanBytes(amount);
  return absl::StrCat(amount);
}

std::vector<TextTable::Cell> ConstraintRow(const ExplainJobResponse::Constraint& constraint) {
  if (constraint.level() == ExplainJobResponse::Constraint::LEVEL_QUOTA &&
      !constraint.resource().empty()) {
    const std::string& of = constraint.resource();
    return {absl::StrCat(constraint.type(), " ", of),
            "",
            Amount(of, constraint.requested()),
            "",
            "",
            absl::StrCat(constraint.message(), "; ", Amount(of, constraint.in_use()), " of ",
                         Amount(of, constraint.limit()), " in use")};
  }
  return {constraint.type(),
          absl::StrCat(constraint.nodes()),
          Amount(constraint.type(), constraint.requested()),
          Amount(constraint.type(), constraint.available()),
          Amount(constraint.type(), constraint.lacking()),
          constraint.message()};
}

}  // namespace

bool IsFinal(Job::State state) {
  return state == Job::STATE_SUCCEEDED || state == Job::STATE_FAILED ||
         state == Job::STATE_CANCELLED;
}

TextTable::Cell JobStateCell(const Job& job) {
  return {StateName(job.state()), ColourOf(job.state())};
}

std::vector<Column<Job>> JobColumns(absl::Time now) {
  return {
      {"NAME", [](const Job& job) { return LastSegment(job.name()); }},
      {"STATE", JobStateCell},
      {"REASON", ReasonText},
      {"QUEUE", [](const Job& job) { return LastSegment(job.spec().queue()); }},
      {"TASKS", TasksText},
      {"GEN", [](const Job& job) { return absl::StrCat(job.generation()); }},
      {"RESTARTS", [](const Job& job) { return absl::StrCat(job.counted_restarts()); }},
      {"AGE", [now](const Job& job) { return HumanAge(ToTime(job.create_time()), now); }},
      {"STARTS IN", [now](const Job& job) { return StartsIn(job, now); }},
      {"PRIORITY", [](const Job& job) { return absl::StrCat(job.spec().priority()); },
       /*wide=*/true},
      {"RAN",
       [now](const Job& job) {
         if (!job.has_start_time()) return std::string();
         const absl::Time end = job.has_end_time() ? ToTime(job.end_time()) : now;
         return HumanDuration(end - ToTime(job.start_time()));
       },
       /*wide=*/true},
      {"SUBMITTER", [](const Job& job) { return job.submitter(); }, /*wide=*/true},
      {"UID", [](const Job& job) { return job.uid(); }, /*wide=*/true},
      {"MESSAGE", [](const Job& job) { return job.message(); }, /*wide=*/true},
  };
}

std::string ConditionName(const scheduler::v1::JobDependency& after) {
  switch (after.condition()) {
    case scheduler::v1::JobDependency::CONDITION_ENDED:
      return "ended";
    case scheduler::v1::JobDependency::CONDITION_NOT_SUCCEEDED:
      return "not succeeded";
    case scheduler::v1::JobDependency::CONDITION_CORRESPONDING:
      return "corresponding element succeeded";
    default:
      return "succeeded";
  }
}

std::string DescribeJob(const Job& job, absl::Time now, const Terminal& terminal) {
  std::string out;
  AddField(&out, "Name", job.name());
  AddField(&out, "Uid", job.uid());
  absl::StrAppend(
      &out, "State:        ", terminal.Paint(ColourOf(job.state()), StateName(job.state())), "\n");
  AddField(&out, "Reason", job.reason());
  AddField(&out, "Message", job.message());
  if (job.hold() && !IsFinal(job.state())) {
    AddField(&out, "Held",
             absl::StrCat("until `capstan job release ", LastSegment(job.name()), "`"));
  }
  AddField(&out, "Queue", job.spec().queue());
  AddField(&out, "Priority", absl::StrCat(job.spec().priority()));
  AddField(&out, "Submitter", job.submitter());
  AddField(&out, "Age", HumanAge(ToTime(job.create_time()), now));
  if (job.has_end_time() && job.has_start_time()) {
    AddField(&out, "Ran for", HumanDuration(ToTime(job.end_time()) - ToTime(job.start_time())));
  }
  AddField(&out, "Generation", absl::StrCat(job.generation()));
  AddField(
      &out, "Restarts",
      absl::StrCat(job.counted_restarts(), " of ",
                   job.spec().retry().has_max_restarts() ? job.spec().retry().max_restarts() : 3));
  if (job.has_retry_time() && job.reason() == "BACK_OFF") {
    AddField(&out, "Next try in", HumanDuration(ToTime(job.retry_time()) - now));
  }
  if (job.preemptions() > 0) AddField(&out, "Preempted", absl::StrCat(job.preemptions(), " times"));
  // The newest first.
  for (int i = job.disruptions_size() - 1;
       i >= std::max(job.disruptions_size() - kMaxDisruptionsShown, 0); --i) {
    const auto& one = job.disruptions(i);
    AddField(&out, "Disrupted",
             absl::StrCat(HumanAge(ToTime(one.time()), now), " ago, ", one.reason(),
                          one.beneficiary().empty() ? "" : ", for ", one.beneficiary(),
                          one.need().empty() ? "" : ": ", one.need()));
  }
  if (job.spec().has_time_limit()) {
    AddField(&out, "Time limit", HumanDuration(ToDuration(job.spec().time_limit())));
  }
  if (job.spec().has_grow_after()) {
    AddField(&out, "Grows after", HumanDuration(ToDuration(job.spec().grow_after())));
  }
  AddField(&out, "Starts in", StartsIn(job, now));
  if (job.has_data_progress()) AddField(&out, "Data", DataLine(job.data_progress()));
  for (const scheduler::v1::JobDependency& after : job.spec().after()) {
    AddField(&out, "After", absl::StrCat(LastSegment(after.job()), ", ", ConditionName(after)));
  }
  AddField(&out, "Singleton", job.spec().singleton());
  if (job.has_array()) AddField(&out, "Array", ArrayLine(job));
  if (job.has_element()) {
    AddField(&out, "Element",
             absl::StrCat(job.element().index(), " of the ", job.element().size(), " of ",
                          LastSegment(job.element().array())));
  }
  AddField(&out, "Bundle", job.spec().bundle());
  if (const std::string within = WithinText(job.spec().topology()); !within.empty()) {
    AddField(&out, "Topology", within.substr(2));
  }
  std::set<std::string> shown;
  AddTree(job, "", &shown, &out);
  for (const auto& mount : job.spec().datasets()) {
    AddField(&out, "Dataset",
             absl::StrCat(mount.dataset(), mount.version().empty() ? "" : "@", mount.version()));
  }
  if (job.tasks().empty()) return out;
  TextTable table({"RANK", "TASK", "STATE", "NODE", "PID", "END", "PROGRESS"});
  for (const TaskStatus& task : job.tasks()) {
    table.AddRow({absl::StrCat(task.rank()), absl::StrCat(task.group(), "-", task.index()),
                  TaskStateName(task), LastSegment(task.node()),
                  task.pid() == 0 ? "" : absl::StrCat(task.pid()),
                  task.has_end()
                      ? absl::StrCat(DescribeEnd(task.end()),
                                     task.end().message().empty() ? "" : ": ", task.end().message())
                      : "",
                  task.progress()});
  }
  absl::StrAppend(&out, "\n", table.Render(terminal));
  return out;
}

std::string JobLine(const Job& job, absl::Time now, const Terminal& terminal) {
  std::string line = terminal.Paint(ColourOf(job.state()), StateName(job.state()));
  if (!job.reason().empty()) absl::StrAppend(&line, " ", WithoutControls(ReasonText(job)));
  if (job.generation() > 1) absl::StrAppend(&line, ", generation ", job.generation());
  if (job.reason() == "AWAITING_DATA" && job.has_data_progress()) {
    absl::StrAppend(&line, ", ", DataLine(job.data_progress()));
  } else if (job.reason() == "BACK_OFF" && job.has_retry_time()) {
    absl::StrAppend(&line, ", next try in ", HumanDuration(ToTime(job.retry_time()) - now));
  } else if (!IsFinal(job.state()) && !job.tasks().empty()) {
    absl::StrAppend(&line, ", tasks: ", TaskCounts(job));
  } else if (!IsFinal(job.state()) && job.has_array()) {
    absl::StrAppend(&line, ", ", ArrayLine(job));
  }
  if (!job.message().empty()) absl::StrAppend(&line, " - ", WithoutControls(job.message()));
  return line;
}

std::string DescribeExplanation(const ExplainJobResponse& explanation, const Terminal& terminal) {
  std::string out = absl::StrCat(WithoutControls(explanation.summary()), "\n");
  if (explanation.jobs_ahead() > 0) {
    absl::StrAppend(&out, explanation.jobs_ahead(), " jobs are ahead of it\n");
  }
  if (explanation.victim_count() > 0) {
    absl::StrAppend(&out, "\nroom is made for it:\n");
    for (const auto& victim : explanation.victims()) {
      absl::StrAppend(&out, "  ", WithoutControls(victim.job()), " ",
                      WithoutControls(victim.message()), "\n");
    }
    const int more = explanation.victim_count() - explanation.victims_size();
    if (more > 0) {
      absl::StrAppend(&out, "  ", more, explanation.victims().empty() ? "" : " more",
                      more == 1 ? " job\n" : " jobs\n");
    }
  }
  if (!explanation.counterfactuals().empty()) {
    absl::StrAppend(&out, "\nit would start if one of these came true:\n");
    for (const auto& one : explanation.counterfactuals()) {
      absl::StrAppend(&out, "  it ", WithoutControls(one.message()), "\n");
    }
  }
  if (explanation.constraints().empty()) return out;
  TextTable table({"CONSTRAINT", "NODES", "ASKS", "FREE", "LACKS", "WHY"});
  for (const auto& constraint : explanation.constraints()) {
    table.AddRow(ConstraintRow(constraint));
  }
  absl::StrAppend(&out, "\n", table.Render(terminal));
  for (const auto& constraint : explanation.constraints()) {
    if (constraint.node_fits().empty()) continue;
    TextTable fits({"NODE", absl::StrCat("FREE ", constraint.type()), "LACKS"});
    for (const auto& fit : constraint.node_fits()) {
      fits.AddRow({fit.node(), Amount(constraint.type(), fit.available()),
                   Amount(constraint.type(), fit.lacking())});
    }
    absl::StrAppend(&out, "\n", fits.Render(terminal));
  }
  return out;
}

}  // namespace capstan::cli
