#include "libs/cgroup/mounts.h"

#include <cstddef>
#include <utility>

#include "absl/strings/str_split.h"

namespace capstan::cgroup {
namespace {

bool IsOctal(char c) { return c >= '0' && c <= '7'; }

// The kernel writes space, tab, newline, backslash and `#` of a path as `\040` and the like.
std::string Unescape(absl::string_view word) {
  std::string path;
  while (!word.empty()) {
    const bool escaped = word.size() >= 4 && word[0] == '\\' && word[1] <= '3' &&
                         IsOctal(word[1]) && IsOctal(word[2]) && IsOctal(word[3]);
    if (escaped) {
      path.push_back(
          static_cast<char>((word[1] - '0') * 64 + (word[2] - '0') * 8 + (word[3] - '0')));
    } else {
      path.push_back(word[0]);
    }
    word.remove_prefix(escaped ? 4 : 1);
  }
  return path;
}

}  // namespace

std::vector<Mount> ParseMounts(absl::string_view mountinfo) {
  std::vector<Mount> mounts;
  for (const absl::string_view line : absl::StrSplit(mountinfo, '\n', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> halves =
        absl::StrSplit(line, absl::MaxSplits(" - ", 1));
    const std::vector<absl::string_view> front = absl::StrSplit(halves.first, ' ');
    const std::vector<absl::string_view> back = absl::StrSplit(halves.second, ' ');
    if (front.size() < 5 || back.size() < 3) continue;
    Mount mount;
    mount.path = Unescape(front[4]);
    mount.v2 = back[0] == "cgroup2";
    if (!mount.v2 && back[0] != "cgroup") continue;
    if (!mount.v2) mount.controllers = absl::StrSplit(back[2], ',');
    mounts.push_back(std::move(mount));
  }
  return mounts;
}

}  // namespace capstan::cgroup
