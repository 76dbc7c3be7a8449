#include "tools/capstan/cli/demand_text.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/time/proto_time.h"
#include "tools/capstan/cli/human_format.h"
#include "tools/capstan/cli/text_table.h"

namespace capstan::cli {
namespace {

using scheduler::v1::DemandClass;
using scheduler::v1::HeldBack;
using scheduler::v1::NodeRequirement;
using scheduler::v1::Topology;
using scheduler::v1::UnmetDemand;

std::string Level(Topology::Level level) {
  return level == Topology::LEVEL_UNSPECIFIED ? ""
                                              : ShortEnum(Topology::Level_Name(level), "LEVEL_");
}

// Each kind of Task, with how many of it where there are several.
std::string Needs(const DemandClass& of) {
  return absl::StrJoin(
      of.shapes(), "; ", [&](std::string* out, const DemandClass::TaskShape& shape) {
        if (of.shapes_size() > 1) absl::StrAppend(out, shape.tasks(), " x ");
        absl::StrAppend(out, DescribeResources(shape.resources()));
        if (of.shapes_size() > 1 && shape.required() != Topology::LEVEL_UNSPECIFIED) {
          absl::StrAppend(out, " in one ", Level(shape.required()));
        }
      });
}

// What Nodes have to be like, `gpu IN [h100]; spot DOES_NOT_EXIST`: for all of a gang, then for
// kinds of Task.
std::string Requirements(const DemandClass& of) {
  std::vector<std::string> words;
  const auto add = [&words](const auto& requirements) {
    for (const NodeRequirement& one : requirements) {
      std::string op = ShortEnum(NodeRequirement::Operator_Name(one.operator_()), "OPERATOR_");
      words.push_back(absl::StrCat(one.key(), " ", op));
      if (!one.values().empty()) {
        absl::StrAppend(&words.back(), " [", absl::StrJoin(one.values(), ", "), "]");
      }
    }
  };
  add(of.node_requirements());
  for (const DemandClass::TaskShape& shape : of.shapes()) add(shape.node_requirements());
  return absl::StrJoin(words, "; ");
}

std::string Within(const DemandClass& of) {
  if (of.shapes_size() == 1 && of.shapes(0).required() != Topology::LEVEL_UNSPECIFIED) {
    return Level(of.shapes(0).required());
  }
  return Level(of.required());
}

std::string Reasons(const DemandClass& of) {
  return absl::StrJoin(of.reasons(), ", ",
                       [&](std::string* out, const DemandClass::ReasonCount& reason) {
                         absl::StrAppend(out, reason.reason());
                         if (of.reasons_size() > 1) absl::StrAppend(out, " ", reason.gangs());
                       });
}

}  // namespace

std::string DescribeDemand(const UnmetDemand& demand, absl::Time now, const OutputOptions& output,
                           const Terminal& terminal) {
  std::vector<std::string> headers = {"TASKS", "GANGS",    "LARGEST", "EACH NEEDS", "IN ONE",
                                      "QUEUE", "PRIORITY", "WAITING", "WHY"};
  if (output.wide)
    headers.insert(headers.end(), {"ALL NEED", "NODES WITH", "CLUSTERS", "LARGEST JOB"});
  TextTable table(headers);
  for (const DemandClass& of : demand.classes()) {
    std::vector<TextTable::Cell> row = {
        absl::StrCat(of.tasks()),
        absl::StrCat(of.gangs()),
        absl::StrCat(of.largest_tasks()),
        Needs(of),
        Within(of),
        LastSegment(of.queue()),
        absl::StrCat(of.min_priority(), "..", of.max_priority()),
        HumanAge(ToTime(of.waiting_since()), now),
        Reasons(of),
    };
    if (output.wide) {
      row.emplace_back(DescribeResources(of.resources()));
      row.emplace_back(Requirements(of));
      row.emplace_back(absl::StrJoin(of.clusters(), ","));
      row.emplace_back(of.largest_job());
    }
    table.AddRow(std::move(row));
  }
  std::string text = demand.classes().empty() ? "no gang waits for more Nodes\n"
                                              : table.Render(terminal, output.headers);
  if (demand.has_rest()) {
    absl::StrAppend(&text, "and ", demand.rest().tasks(), " Tasks of ", demand.rest().gangs(),
                    " gangs in ", demand.rest().classes(),
                    " smaller classes: ", DescribeResources(demand.rest().resources()), "\n");
  }
  if (!demand.held_back().empty()) {
    absl::StrAppend(&text, "waiting for something else: ",
                    absl::StrJoin(demand.held_back(), ", ",
                                  [](std::string* out, const HeldBack& held) {
                                    absl::StrAppend(out, held.jobs(), " ", held.cause());
                                  }),
                    "\n");
  }
  return text;
}

}  // namespace capstan::cli
