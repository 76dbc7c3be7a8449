#ifndef CAPSTAN_INTEGRATION_SIMULATION_SECTION_CHECK_H_
#define CAPSTAN_INTEGRATION_SIMULATION_SECTION_CHECK_H_

#include <string>

#include "services/scheduler/core/model.h"

namespace capstan::simulation {

// What of its sections a generation has, by the words of `min_sections` in the API and without the
// core's own account of it.
struct SectionCheck {
  // What is wrong with it; empty if nothing is.
  std::string wrong;
  // Sections that it may be without, and has or has not.
  int there = 0;
  int left_out = 0;
};

// Of a Job that has a gang: each TaskGroup has at least what it needs, but for those in a section
// that the gang may be without, of which either all have that or none has anything.
SectionCheck CheckSections(const scheduler::JobEntry& job);

}  // namespace capstan::simulation

#endif  // CAPSTAN_INTEGRATION_SIMULATION_SECTION_CHECK_H_
