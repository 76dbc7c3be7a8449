#include "libs/crash_point/crash_plan.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "libs/safe_path/safe_path.h"

namespace capstan {
namespace {

// A plan has a handful of lines.
constexpr size_t kPlanLimit = 1 << 16;

bool IsFolder(const std::string& path) {
  struct stat info = {};
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

std::string ParentOf(const std::string& path) { return path.substr(0, path.rfind('/')); }

// The nearest one going up from `path`.
std::string PlanFolder(std::string path) {
  while (absl::StrContains(path, '/')) {
    path = ParentOf(path);
    const std::string folder = absl::StrCat(path, "/", kCrashPlanFolder);
    if (IsFolder(folder)) return folder;
  }
  return "";
}

std::string ReadPlan(const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/plan");
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return "";
  auto text = ReadAll(fd.get(), kPlanLimit, path);
  return text.ok() ? *std::move(text) : "";
}

}  // namespace

absl::optional<CrashRole> FindCrashRole(const std::vector<std::string>& arguments) {
  if (arguments.size() < 3) return absl::nullopt;
  CrashRole role;
  if (arguments[1] == "shim") {
    // Not what only probes or visits.
    if (arguments.size() != 3) return absl::nullopt;
    role.part = "shim";
    role.folder = PlanFolder(arguments[2]);
  } else if (arguments[1] == "serve") {
    for (absl::string_view argument : arguments) {
      if (!absl::ConsumePrefix(&argument, "--config=")) continue;
      const std::string folder = ParentOf(std::string(argument));
      role.part = folder.substr(folder.rfind('/') + 1);
      role.folder = PlanFolder(folder);
    }
  }
  if (role.folder.empty()) return absl::nullopt;
  return role;
}

bool CrashPlan::Claim(const std::string& id) const {
  const std::string path = absl::StrCat(role_.folder, "/claimed/", id);
  const UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd.valid()) return false;
  return WriteAll(fd.get(), absl::StrCat(getpid(), "\n"), path).ok();
}

CrashAction CrashPlan::Reached(absl::string_view point) {
  absl::MutexLock lock(&mutex_);
  if (seen_.insert(std::string(point)).second) {
    const std::string path = absl::StrCat(role_.folder, "/seen/", role_.part, "@", point);
    const UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  }
  const std::string plan = ReadPlan(role_.folder);
  for (const absl::string_view line : absl::StrSplit(plan, '\n', absl::SkipEmpty())) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    int nth = 0;
    if (words.size() != 5 || words[2] != point || !absl::SimpleAtoi(words[3], &nth)) continue;
    if (words[1] != role_.part && words[1] != kAnyCrashPart) continue;
    if (++reached_[words[0]] < nth || !Claim(words[0])) continue;
    return words[4] == "stop" ? CrashAction::kStop : CrashAction::kKill;
  }
  return CrashAction::kNone;
}

}  // namespace capstan
