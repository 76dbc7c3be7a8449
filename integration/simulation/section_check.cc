#include "integration/simulation/section_check.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "services/scheduler/core/model.h"

namespace capstan::simulation {
namespace {

using capstan::scheduler::v1::JobSpec;

// -1 of the Job itself.
int PositionOf(const JobSpec& spec, const std::string& section) {
  for (int s = 0; s < spec.sections_size(); ++s) {
    if (spec.sections(s).name() == section) return s;
  }
  return -1;
}

// Whether what it is part of needs the section.
bool IsNeeded(const JobSpec& spec, int section) {
  const std::string& of = spec.sections(section).parent();
  const int least =
      of.empty() ? spec.min_sections() : spec.sections(PositionOf(spec, of)).min_sections();
  int before = 0;
  for (int s = 0; s < section; ++s) before += spec.sections(s).parent() == of ? 1 : 0;
  return least == 0 || before < least;
}

// The section itself, or the next one around it, that need not be there; -1 if all must.
int OptionalAround(const JobSpec& spec, int section) {
  while (section >= 0 && IsNeeded(spec, section)) {
    section = PositionOf(spec, spec.sections(section).parent());
  }
  return section;
}

}  // namespace

SectionCheck CheckSections(const scheduler::JobEntry& job) {
  const JobSpec& spec = job.spec.spec();
  SectionCheck check;
  const auto is_there = [&](int section) {
    for (int g = 0; g < spec.task_groups_size(); ++g) {
      const int within = PositionOf(spec, spec.task_groups(g).section());
      if (OptionalAround(spec, within) == section && SizeOf(job, g) > 0) return true;
    }
    return false;
  };
  for (int g = 0; g < spec.task_groups_size(); ++g) {
    const auto& group = spec.task_groups(g);
    const int optional = OptionalAround(spec, PositionOf(spec, group.section()));
    if (optional >= 0 && !is_there(optional)) continue;
    const int least = group.min_replicas() == 0 ? group.replicas() : group.min_replicas();
    if (SizeOf(job, g) >= least) continue;
    check.wrong =
        absl::StrCat("has ", SizeOf(job, g), " of ", group.name(), ", which needs ", least);
  }
  for (int s = 0; s < spec.sections_size(); ++s) {
    if (IsNeeded(spec, s)) continue;
    const bool there = is_there(s);
    ++(there ? check.there : check.left_out);
    const int around = OptionalAround(spec, PositionOf(spec, spec.sections(s).parent()));
    if (there && around >= 0 && !is_there(around)) {
      check.wrong =
          absl::StrCat("has ", spec.sections(s).name(), " without ", spec.sections(around).name());
    }
  }
  return check;
}

}  // namespace capstan::simulation
