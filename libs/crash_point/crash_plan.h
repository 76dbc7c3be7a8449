// Who dies or stops at which crash point, as a test has planned it.
//
// The plan lives in a folder named `crash_points` that only the test's user can open:
//   plan           one line for each fault, `<id> <part|any> <point> <nth> <kill|stop>`; replaced
//                  whole
//   claimed/<id>   who carried it out, `<pid>`: made before it is, so that it happens once
//   seen/<part>@<point>   the point was reached by this part
#ifndef CAPSTAN_LIBS_CRASH_POINT_CRASH_PLAN_H_
#define CAPSTAN_LIBS_CRASH_POINT_CRASH_PLAN_H_

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/optional.h"

namespace capstan {

inline constexpr char kCrashPlanFolder[] = "crash_points";

// In place of a part: whichever comes first.
inline constexpr absl::string_view kAnyCrashPart = "any";

enum class CrashAction { kNone, kKill, kStop };

// What a process is, and the folder of its plan.
struct CrashRole {
  // As its configuration names it (`scheduler`, `scheduler-2`), or `shim`.
  std::string part;
  std::string folder;
};

// From a command line: `capstan serve <service> --config=<data folder>/<part>/config.yaml` or
// `capstan shim <data folder>/<...>`. Absent for any other, and where no folder of the path has a
// `crash_points` beside or in it.
absl::optional<CrashRole> FindCrashRole(const std::vector<std::string>& arguments);

// One process's view of the plan. Any thread.
class CrashPlan {
 public:
  explicit CrashPlan(CrashRole role) : role_(std::move(role)) {}

  // Notes that the point was reached, and says what this process is to do to itself now. A fault
  // counts the times that the process reaches its point from when it first sees the plan with it.
  CrashAction Reached(absl::string_view point) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // True for whoever is first.
  bool Claim(const std::string& id) const;

  const CrashRole role_;
  absl::Mutex mutex_;
  std::set<std::string> seen_ ABSL_GUARDED_BY(mutex_);
  // Times reached, by the fault's id.
  std::map<std::string, int> reached_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace capstan

#endif  // CAPSTAN_LIBS_CRASH_POINT_CRASH_PLAN_H_
