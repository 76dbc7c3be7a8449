#ifndef CAPSTAN_INTEGRATION_SIMULATION_OUTAGE_H_
#define CAPSTAN_INTEGRATION_SIMULATION_OUTAGE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "integration/simulation/mutants.h"

namespace capstan::simulation {

struct OutageConfig {
  enum class Of {
    // Both replicas and their store, or the store alone, as the seed has it.
    kScheduler,
    // The network of one Node, both ways or one way.
    kNode,
    // The network between a Cluster's executor and the schedulers, both ways or one way.
    kExecutor,
  };

  uint64_t seed = 0;
  Of of = Of::kScheduler;
  // Of the Jobs; zero: they ask for none and get the default.
  absl::Duration fence_after;
  // From the moment at which the gangs run; if zero, as long as replace_after of the Jobs and, of
  // a network, as it takes to start elsewhere, and up to a minute.
  absl::Duration length;
  // Meanwhile agents are killed and stopped, and shims stopped, so that one part alone must end the
  // Tasks.
  bool hurt_hosts = false;
  bool print_log = false;
  Mutants mutants;
};

// What was seen of one outage: by the witness and in the traffic, not from the cores' own state.
struct OutageReport {
  // Every promise that was broken, in words.
  std::vector<std::string> broken;
  // What happened, for the log of the test.
  std::string how;

  // Tasks that ran on Nodes without confirmation when the outage began, and how many of them did
  // all their work meanwhile.
  int tasks = 0;
  int finished_meanwhile = 0;
  // Gangs that were started again for it.
  int gangs_again = 0;
  // Time from the last confirmation to the end of a Task that was ended for want of it, on the boot
  // clock of its host. Zero and infinite if there was none.
  absl::Duration longest_life = absl::ZeroDuration();
  absl::Duration shortest_life = absl::InfiniteDuration();
  // True time from the last confirmation of a Task to the start of any Task of the next generation,
  // and from its end to that start.
  absl::Duration earliest_replacement = absl::InfiniteDuration();
  absl::Duration shortest_gap = absl::InfiniteDuration();
};

// Several gangs run; the outage comes, lasts and goes; all Jobs must succeed in the end and leave
// nothing. Promised while it is shorter than fence_after: every Task that ever started does all its
// work, in generation 1. Promised while it is longer: a Task without confirmation ends within
// fence_after of the last one, not earlier than its grace needs, and not later than replace_after;
// its gang starts again under the very next generation, no sooner than replace_after and after that
// end, and elsewhere while the outage lasts; a gang that was not hit runs on.
OutageReport RunOutage(const OutageConfig& config);

}  // namespace capstan::simulation

#endif  // CAPSTAN_INTEGRATION_SIMULATION_OUTAGE_H_
