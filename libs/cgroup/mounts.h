#ifndef CAPSTAN_LIBS_CGROUP_MOUNTS_H_
#define CAPSTAN_LIBS_CGROUP_MOUNTS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace capstan::cgroup {

// A hierarchy of control groups.
struct Mount {
  // Where it is mounted.
  std::string path;
  bool v2 = false;
  // Of v1; other mount options are among them.
  std::vector<std::string> controllers;

  friend bool operator==(const Mount&, const Mount&) = default;
};

// Those that a mountinfo file (proc(5)) names, in its order. Lines of anything else are passed
// over.
std::vector<Mount> ParseMounts(absl::string_view mountinfo);

}  // namespace capstan::cgroup

#endif  // CAPSTAN_LIBS_CGROUP_MOUNTS_H_
