#include "integration/crash/host.h"

#include <sys/types.h>

#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/types/optional.h"
#include "libs/safe_path/folder_names.h"

namespace capstan::integration {
namespace {

enum class Role { kNone, kPart, kShim, kTask };

std::string ReadFileOrEmpty(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<std::string> Words(const std::string& path) {
  return absl::StrSplit(ReadFileOrEmpty(path), '\0', absl::SkipEmpty());
}

Role RoleOf(pid_t pid, const TestPlatform& platform) {
  const std::string process = absl::StrCat("/proc/", pid);
  const std::vector<std::string> line = Words(process + "/cmdline");
  if (line.size() >= 3 && line[1] == "shim" && absl::StartsWith(line[2], platform.data_dir())) {
    return Role::kShim;
  }
  if (line.size() >= 2 && line[1] == "serve") {
    for (const std::string& argument : line) {
      if (absl::StrContains(argument, platform.data_dir())) return Role::kPart;
    }
  }
  for (const std::string& variable : Words(process + "/environ")) {
    if (absl::StartsWith(variable, absl::StrCat("WITNESS_FILE=", platform.folder(), "/"))) {
      return Role::kTask;
    }
  }
  return Role::kNone;
}

// 0 if it is gone.
pid_t ParentOf(pid_t pid) {
  const std::string status = ReadFileOrEmpty(absl::StrCat("/proc/", pid, "/status"));
  for (absl::string_view line : absl::StrSplit(status, '\n')) {
    pid_t parent = 0;
    if (absl::ConsumePrefix(&line, "PPid:") && absl::SimpleAtoi(line, &parent)) return parent;
  }
  return 0;
}

template <typename Wanted>
std::vector<dev::ProcessId> Find(const Wanted& wanted) {
  std::vector<dev::ProcessId> found;
  for (const std::string& name : FolderNames("/proc")) {
    pid_t pid = 0;
    if (!absl::SimpleAtoi(name, &pid) || !wanted(pid)) continue;
    const absl::optional<dev::ProcessId> process = dev::FindProcess(pid);
    if (process.has_value()) found.push_back(*process);
  }
  return found;
}

}  // namespace

std::vector<dev::ProcessId> ShimsOf(const TestPlatform& platform) {
  return Find([&](pid_t pid) {
    return RoleOf(pid, platform) == Role::kShim && RoleOf(ParentOf(pid), platform) != Role::kShim;
  });
}

std::vector<dev::ProcessId> ProcessesOfHost(const TestPlatform& platform) {
  std::vector<dev::ProcessId> found;
  const absl::optional<dev::ProcessId> supervisor = platform.Part("supervisor");
  if (supervisor.has_value()) found.push_back(*supervisor);
  const std::vector<dev::ProcessId> others =
      Find([&](pid_t pid) { return RoleOf(pid, platform) != Role::kNone; });
  found.insert(found.end(), others.begin(), others.end());
  return found;
}

}  // namespace capstan::integration
