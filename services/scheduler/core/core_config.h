#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_CORE_CONFIG_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_CORE_CONFIG_H_

#include <cstddef>

#include "absl/time/time.h"

namespace capstan::scheduler {

// Limits of the core (DESIGN.md §4). The defaults are the production values; the floors of
// fence_after apply outside tests.
struct CoreConfig {
  // An executor, or a Node, not heard for this long takes no new Placements.
  absl::Duration suspect_after = absl::Seconds(15);
  // fence_after of a Job that names none, and the bounds of one that does.
  absl::Duration default_fence_after = absl::Minutes(15);
  absl::Duration min_fence_after = absl::Minutes(1);
  absl::Duration max_fence_after = absl::Hours(24);
  // Fixed part of the margin between fence_after and replace_after; see ReplaceAfter.
  absl::Duration replace_margin = absl::Seconds(30);
  // A gang in PREPARE without any progress for this long is undone.
  absl::Duration prepare_timeout = absl::Minutes(10);

  // The observer is suspected when, within the window, more than `freeze_percent` and at least
  // so many executors, or Nodes, fall silent.
  absl::Duration freeze_window = absl::Minutes(5);
  int freeze_percent = 20;
  int freeze_min_executors = 3;
  int freeze_min_nodes = 10;

  // A Job that has run for less is not ended for another, where no Queue says how long.
  absl::Duration min_runtime = absl::Minutes(5);

  // Room must have been spare for so long before a gang grows into it.
  absl::Duration spare_for = absl::Minutes(1);
  // The floor of a Job's grow_after; applies outside tests.
  absl::Duration min_grow_after = absl::Minutes(1);
  // The room of a gang that returns to its place is kept for so long from the end of its generation,
  // where it cannot be placed at once.
  absl::Duration return_within = absl::Minutes(5);

  // Running gangs are moved to make room in one piece for a MIG instance, if that costs no more than
  // so much time of whole GPUs: work that is lost since the last checkpoints, and a fixed part for
  // each gang. 0: nobody is moved.
  absl::Duration repartition_max_cost = absl::ZeroDuration();
  absl::Duration repartition_act_cost = absl::Minutes(1);
  // From the beginning of one such move to that of the next, at least.
  absl::Duration repartition_pause = absl::Minutes(1);

  // Rounds ask about each Job that waits, one by one, as if none told anything of its kind. That
  // changes nothing but what they cost, as a test shows.
  bool visit_all = false;
  // No round takes up anything that the one before has found out. That too changes nothing else.
  bool begin_anew = false;

  // Jobs that have not ended, of which a CreateJob beyond is shed.
  size_t max_jobs = 1'000'000;
  // Ended Jobs are kept for so long after their end, and at most so many (then the oldest go), but
  // leave only once the archive has acknowledged them: without an archive all stay, and with it
  // away a CreateJob is shed at the sum of both bounds.
  absl::Duration keep_finished_for = absl::Hours(24 * 7);
  size_t max_finished_jobs = 200'000;
  // Pause after the archive did not take them.
  absl::Duration archive_retry = absl::Seconds(30);
  // How long a request id is remembered.
  absl::Duration request_id_ttl = absl::Hours(24);
  // A generation that ran at least this long ends a streak of uncounted restarts.
  absl::Duration streak_reset_after = absl::Minutes(1);

  // Time without confirmation after which a gang may run elsewhere: fence_after and a margin that
  // covers two clocks of 1,000 ppm each and the fixed part.
  absl::Duration ReplaceAfter(absl::Duration fence_after) const {
    return fence_after + fence_after / 500 + replace_margin;
  }
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_CORE_CONFIG_H_
