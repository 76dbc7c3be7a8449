// Which Task a process is of, by the kernel's word, decides whose socket it may use: the group's
// own processes and those below it are found, and no process of another group is.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "libs/fuzzing/fuzz_input.h"
#include "proto/capstan/nodeagent/v1/shim.pb.h"
#include "services/node_agent/adapters/task_cgroup.h"

namespace {

using capstan::fuzzing::FuzzInput;
using capstan::fuzzing::Require;
using capstan::node_agent::InCgroup;
using Cgroup = capstan::nodeagent::v1::ShimSpec::Cgroup;

constexpr char kName[] = "/capstan-node/job.1.w-0";

// A folder that a Task may have made: no newline, which the kernel refuses, and no `/` in it.
std::string AnyFolder(FuzzInput* input) {
  static const auto& names = *new std::vector<std::string>{
      "job.1.w-0", "capstan-node", "job.1.w-00", "a", "0::", "freezer", "5:freezer:"};
  std::string name = input->Word(names);
  for (char& c : name) c = c == '\n' || c == '/' || c == '\0' ? '_' : c;
  return name.empty() || name == "." || name == ".." ? "x" : name;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  Cgroup cgroup;
  const bool v2 = input.Flag();
  const std::string base =
      absl::StrCat(v2 ? "/sys/fs/cgroup/unified" : "/sys/fs/cgroup/freezer", kName);
  (v2 ? cgroup.mutable_v2() : cgroup.mutable_v1_freezer())->assign(base);
  if (input.Below(4) == 0) {
    // Whatever it says, the path of a group must be in it.
    const std::string text(input.Rest());
    if (InCgroup(text, cgroup)) Require(absl::StrContains(text, ":/"));
    Require(!InCgroup(text, Cgroup()));
    return 0;
  }
  // A process of some group below the platform's, in each hierarchy.
  std::string path = "/capstan-node";
  for (size_t depth = input.Below(4); depth > 0; --depth) {
    absl::StrAppend(&path, "/", AnyFolder(&input));
  }
  const bool inside = path == kName || absl::StartsWith(path, absl::StrCat(kName, "/"));
  const std::string other = input.Flag() ? "/" : kName;
  const std::string own_line = absl::StrCat(v2 ? "0::" : "7:freezer:", path, "\n");
  const std::string other_line =
      absl::StrCat(v2 ? "7:freezer:" : "0::", other, "\n4:cpu,name=freezers:", other, "\n");
  Require(InCgroup(absl::StrCat(other_line, own_line), cgroup) == inside);
  Require(InCgroup(absl::StrCat(own_line, other_line), cgroup) == inside);
  return 0;
}
