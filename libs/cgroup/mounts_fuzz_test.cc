// The kernel's list of mounts, whose paths anybody who may mount chooses: what it means is found
// again whatever the path, and one mount's line makes no other's.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "libs/cgroup/mounts.h"
#include "libs/fuzzing/fuzz_input.h"

namespace {

using capstan::cgroup::Mount;
using capstan::cgroup::ParseMounts;
using capstan::fuzzing::FuzzInput;
using capstan::fuzzing::Require;

// As mangle() of the kernel writes it.
std::string Escape(absl::string_view path) {
  std::string out;
  for (const char c : path) {
    if (c == ' ' || c == '\t' || c == '\n' || c == '\\' || c == '#') {
      absl::StrAppendFormat(&out, "\\%03o", static_cast<unsigned char>(c));
    } else {
      out.push_back(c);
    }
  }
  return out;
}

void CheckWritten(FuzzInput* input) {
  std::vector<Mount> expected;
  std::string text;
  while (!input->empty() && expected.size() < 8) {
    Mount mount;
    mount.path = absl::StrCat("/", input->Bytes(input->Below(20)));
    // A path has no zero byte.
    mount.path.erase(std::remove(mount.path.begin(), mount.path.end(), '\0'), mount.path.end());
    const size_t kind = input->Below(3);
    mount.v2 = kind == 1;
    if (kind == 0) mount.controllers = {"rw", "cpu", "cpuacct"};
    absl::StrAppend(&text, "30 23 0:26 / ", Escape(mount.path), " rw,nosuid ",
                    input->Flag() ? "shared:9 " : "", "- ",
                    kind == 0   ? "cgroup"
                    : kind == 1 ? "cgroup2"
                                : "tmpfs",
                    " none ", kind == 0 ? absl::StrJoin(mount.controllers, ",") : "rw", "\n");
    if (kind != 2) expected.push_back(mount);
  }
  Require(ParseMounts(text) == expected);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  if (input.Flag()) {
    CheckWritten(&input);
    return 0;
  }
  const absl::string_view text = input.Rest();
  const std::vector<Mount> mounts = ParseMounts(text);
  Require(mounts.size() <= text.size() / 10);
  for (const Mount& mount : mounts) Require(mount.controllers.empty() == mount.v2);
  return 0;
}
