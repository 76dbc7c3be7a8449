#include "services/node_agent/adapters/task_cgroup.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace capstan::node_agent {

namespace {

bool HasController(absl::string_view controllers, absl::string_view wanted) {
  const std::vector<absl::string_view> all = absl::StrSplit(controllers, ',');
  return std::find(all.begin(), all.end(), wanted) != all.end();
}

}  // namespace

std::string ReadCgroup(pid_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/cgroup"));
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

bool InCgroup(absl::string_view proc_cgroup,
              const capstan::nodeagent::v1::ShimSpec::Cgroup& cgroup) {
  for (const absl::string_view line : absl::StrSplit(proc_cgroup, '\n')) {
    const std::vector<absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    const bool v2 = parts[0] == "0" && parts[1].empty();
    const std::string& base = v2 ? cgroup.v2() : cgroup.v1_freezer();
    if (base.empty() || (!v2 && !HasController(parts[1], "freezer"))) continue;
    // The folder's name ends in the group's path, whatever the hierarchy is mounted on.
    absl::string_view path = parts[2];
    while (path.size() > 1 && path.front() == '/') {
      if (absl::EndsWith(base, path)) return true;
      path = path.substr(0, path.rfind('/'));
    }
  }
  return false;
}

}  // namespace capstan::node_agent
