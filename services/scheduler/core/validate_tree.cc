#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/resource/id.h"
#include "services/scheduler/core/topology_levels.h"
#include "services/scheduler/core/validate.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::JobSpec;
using capstan::scheduler::v1::Section;
using capstan::scheduler::v1::TaskGroup;
using capstan::scheduler::v1::TaskSlice;
using capstan::scheduler::v1::Topology;

// `outer` is the level that all of it is in one domain of anyway.
void CheckTopology(const Topology& topology, Topology::Level outer, const std::string& path,
                   status::FieldErrors* errors) {
  const auto check = [&](const char* name, Topology::Level level, Topology::Level given) {
    const std::string field = absl::StrCat(path, ".", name);
    if (!Topology::Level_IsValid(level)) {
      errors->Add(field, absl::StrCat("is ", level, "; expected a level, e.g. LEVEL_RACK"));
    } else if (level != Topology::LEVEL_UNSPECIFIED && !IsNarrower(level, given)) {
      errors->Add(field, absl::StrCat("is ", Topology::Level_Name(level), ", which ",
                                      Topology::Level_Name(given),
                                      " gives anyway; expected a level within that, or nothing"));
    }
  };
  if (!Topology::Level_IsValid(outer)) outer = Topology::LEVEL_UNSPECIFIED;
  check("required", topology.required(), outer);
  const bool narrower = IsNarrower(topology.required(), outer);
  check("preferred", topology.preferred(), narrower ? topology.required() : outer);
}

void CheckSlices(const TaskGroup& group, Topology::Level outer, const std::string& path,
                 status::FieldErrors* errors) {
  if (group.slices_size() > kMaxSlices) {
    errors->Add(
        path, absl::StrCat("has ", group.slices_size(), " entries; expected at most ", kMaxSlices));
  }
  int whole = group.replicas();
  std::string of_what = "replicas";
  for (int i = 0; i < group.slices_size(); ++i) {
    const TaskSlice& slice = group.slices(i);
    const std::string field = absl::StrCat(path, "[", i, "]");
    if (!Topology::Level_IsValid(slice.level()) || slice.level() == Topology::LEVEL_UNSPECIFIED) {
      errors->Add(absl::StrCat(field, ".level"),
                  absl::StrCat("is ", static_cast<int>(slice.level()),
                               "; expected a level, e.g. LEVEL_RACK"));
    } else if (!IsNarrower(slice.level(), outer)) {
      errors->Add(absl::StrCat(field, ".level"),
                  absl::StrCat("is ", Topology::Level_Name(slice.level()), ", which ",
                               Topology::Level_Name(outer),
                               i == 0 ? " of `required`" : " of the slice before",
                               " gives anyway; expected a level within that"));
    }
    outer = NarrowerOf(outer, slice.level());
    const std::string size = absl::StrCat(field, ".size");
    if (slice.size() < 1 || slice.size() > kMaxTasks) {
      errors->Add(size, absl::StrCat("is ", slice.size(), "; expected 1 to ", kMaxTasks));
      return;
    }
    if (whole % slice.size() != 0) {
      errors->Add(size, absl::StrCat("is ", slice.size(), "; expected a divisor of `", of_what,
                                     "`, which is ", whole));
    }
    if (i == 0 && group.min_replicas() % slice.size() != 0) {
      errors->Add(size, absl::StrCat("is ", slice.size(),
                                     "; expected a divisor of `min_replicas` too, which is ",
                                     group.min_replicas()));
    }
    whole = slice.size();
    of_what = absl::StrCat("slices[", i, "].size");
  }
}

// `inner`: how many sections there are of which that is said.
void CheckMinSections(int least, int inner, const std::string& path, status::FieldErrors* errors) {
  if (least >= 0 && least <= inner) return;
  errors->Add(path,
              absl::StrCat("is ", least, "; expected ",
                           inner == 0 ? "0: no section has it as its parent"
                                      : absl::StrCat("1 to ", inner,
                                                     ", which is how many sections it is of, or 0 "
                                                     "for all of them")));
}

// A section as far as it is good.
struct Known {
  int depth = 1;
  // Sections in it.
  int inner = 0;
  // What all of it is in one domain of.
  Topology::Level level = Topology::LEVEL_UNSPECIFIED;
  int parent = -1;
  bool has_tasks = false;
};

}  // namespace

void ValidateGroupTree(const JobSpec& spec, absl::string_view path, status::FieldErrors* errors) {
  CheckTopology(spec.topology(), Topology::LEVEL_UNSPECIFIED, absl::StrCat(path, ".topology"),
                errors);
  const Topology::Level whole = NarrowerOf(Topology::LEVEL_UNSPECIFIED, spec.topology().required());
  const std::string sections = absl::StrCat(path, ".sections");
  if (spec.sections_size() > kMaxSections) {
    errors->Add(sections, absl::StrCat("has ", spec.sections_size(), " entries; expected at most ",
                                       kMaxSections));
    return;
  }
  std::map<std::string, int> names;
  std::vector<Known> known(spec.sections_size());
  int outermost = 0;
  for (int i = 0; i < spec.sections_size(); ++i) {
    const Section& section = spec.sections(i);
    const std::string field = absl::StrCat(sections, "[", i, "]");
    Topology::Level outer = whole;
    const auto parent = names.find(section.parent());
    if (parent != names.end()) {
      known[i].parent = parent->second;
      known[i].depth = known[parent->second].depth + 1;
      ++known[parent->second].inner;
      outer = known[parent->second].level;
    } else if (!section.parent().empty()) {
      errors->Add(absl::StrCat(field, ".parent"),
                  absl::StrCat("is `", section.parent(),
                               "`; expected a section named before this one, or nothing"));
    }
    if (known[i].depth > kMaxSectionDepth) {
      errors->Add(absl::StrCat(field, ".parent"),
                  absl::StrCat("puts it ", known[i].depth, " sections deep; expected at most ",
                               kMaxSectionDepth));
    }
    if (!resource::IsValidId(section.name()) || section.name().size() > 32) {
      errors->Add(
          absl::StrCat(field, ".name"),
          absl::StrCat("is `", section.name(), "`; expected [a-z]([a-z0-9-]{0,30}[a-z0-9])?"));
    }
    if (!names.emplace(section.name(), i).second) {
      known[i].has_tasks = true;
      errors->Add(absl::StrCat(field, ".name"),
                  absl::StrCat("`", section.name(), "` is the name of an earlier section"));
    }
    CheckTopology(section.topology(), outer, absl::StrCat(field, ".topology"), errors);
    known[i].level = NarrowerOf(outer, section.topology().required());
    if (known[i].parent < 0) ++outermost;
  }
  CheckMinSections(spec.min_sections(), outermost, absl::StrCat(path, ".min_sections"), errors);
  for (int i = 0; i < spec.sections_size(); ++i) {
    CheckMinSections(spec.sections(i).min_sections(), known[i].inner,
                     absl::StrCat(sections, "[", i, "].min_sections"), errors);
  }
  for (int i = 0; i < spec.task_groups_size(); ++i) {
    const TaskGroup& group = spec.task_groups(i);
    const std::string field = absl::StrCat(path, ".task_groups[", i, "]");
    Topology::Level outer = whole;
    const auto section = names.find(group.section());
    if (section != names.end()) {
      outer = known[section->second].level;
      for (int s = section->second; s >= 0; s = known[s].parent) known[s].has_tasks = true;
    } else if (!group.section().empty()) {
      errors->Add(absl::StrCat(field, ".section"),
                  absl::StrCat("is `", group.section(),
                               "`; expected the name of one of `sections`, or nothing"));
    }
    CheckTopology(group.topology(), outer, absl::StrCat(field, ".topology"), errors);
    CheckSlices(group, NarrowerOf(outer, group.topology().required()),
                absl::StrCat(field, ".slices"), errors);
  }
  for (int i = 0; i < spec.sections_size(); ++i) {
    if (known[i].has_tasks) continue;
    errors->Add(absl::StrCat(sections, "[", i, "]"),
                absl::StrCat("`", spec.sections(i).name(),
                             "` has no TaskGroup in it or below it; name it in a TaskGroup's "
                             "`section`, or leave it out"));
  }
}

}  // namespace capstan::scheduler
