// The definition for programs of tests. It finds out by itself, from the command line, whether this
// process has a plan: nothing reaches a shim but its arguments.
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "libs/crash_point/crash_plan.h"
#include "libs/crash_point/crash_point.h"
#include "libs/safe_path/safe_path.h"

namespace capstan {
namespace {

constexpr char kCommandLine[] = "/proc/self/cmdline";
constexpr size_t kCommandLineLimit = 1 << 20;

// Null for a process without a plan. Lives as long as the process.
CrashPlan* PlanOfThisProcess() {
  static CrashPlan* const plan = []() -> CrashPlan* {
    const UniqueFd fd(open(kCommandLine, O_RDONLY | O_CLOEXEC));
    const auto text = ReadAll(fd.get(), kCommandLineLimit, kCommandLine);
    if (!text.ok()) return nullptr;
    const std::vector<std::string> arguments = absl::StrSplit(*text, '\0', absl::SkipEmpty());
    const auto role = FindCrashRole(arguments);
    return role.has_value() ? new CrashPlan(*role) : nullptr;
  }();
  return plan;
}

}  // namespace

void CrashPoint(absl::string_view point) {
  CrashPlan* const plan = PlanOfThisProcess();
  if (plan == nullptr) return;
  const CrashAction action = plan->Reached(point);
  if (action == CrashAction::kNone) return;
  // To this thread, so that it goes no further.
  syscall(SYS_tgkill, getpid(), syscall(SYS_gettid),
          action == CrashAction::kKill ? SIGKILL : SIGSTOP);
}

}  // namespace capstan
