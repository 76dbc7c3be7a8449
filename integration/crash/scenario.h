// What goes wrong in one run, drawn from a seed.
#ifndef CAPSTAN_INTEGRATION_CRASH_SCENARIO_H_
#define CAPSTAN_INTEGRATION_CRASH_SCENARIO_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "libs/crash_point/crash_plan.h"

namespace capstan::integration {

// How far the Job has come when a fault is made, or laid out to be met. Before the first submit the
// platform may still be starting.
enum class Moment { kBeforeSubmit, kSubmitted, kStarted, kCommitted, kEnding };

struct Fault {
  enum class Kind {
    // Whoever of `part` first reaches `point` for the `nth` time.
    kPoint,
    // A process: a part, or `shim` for that of `rank`.
    kProcess,
    // Every part at once.
    kAllParts,
    // The supervisor; the parts live on until the next `dev up`.
    kSupervisor,
    // The supervisor and every part.
    kEverything,
    // These and the shims; killed, also what runs in Tasks, as if the machine were lost.
    kHost,
  };
  Kind kind = Kind::kPoint;
  // SIGKILL, or SIGSTOP and after `stop_for` SIGCONT.
  CrashAction action = CrashAction::kKill;
  std::string part;
  // Of the Task whose shim it is.
  int rank = 0;
  std::string point;
  int nth = 1;
  Moment moment = Moment::kBeforeSubmit;
  absl::Duration stop_for;

  std::string Describe() const;
};

struct Scenario {
  uint64_t seed = 0;
  // The Job's Tasks end themselves two seconds after the last word from the scheduler; else they
  // wait for longer than any run takes.
  bool short_fence = false;
  int ranks = 2;
  std::vector<Fault> faults;

  std::string Describe() const;
};

inline constexpr absl::Duration kShortFence = absl::Seconds(2);

// Runs that share a platform, one after another: the first is the one with `seed %
// kSeedsOfAPlatform
// == 1`, in which the platform is also started for the first time.
inline constexpr uint64_t kSeedsOfAPlatform = 10;

enum class StoreKind { kSqlite, kEtcd };

// The same for the same seed. Successive seeds meet every crash point in turn.
Scenario MakeScenario(uint64_t seed, StoreKind store = StoreKind::kSqlite);

}  // namespace capstan::integration

#endif  // CAPSTAN_INTEGRATION_CRASH_SCENARIO_H_
