#ifndef CAPSTAN_INTEGRATION_SIMULATION_MUTANTS_H_
#define CAPSTAN_INTEGRATION_SIMULATION_MUTANTS_H_

namespace capstan::simulation {

// Bugs planted one at a time into what carries the cores' decisions out, to show that the
// invariants see them.
struct Mutants {
  // The scheduler sends START, and all else, before it is stored.
  bool start_before_persist = false;
  // The scheduler's commits do not compare the leadership.
  bool no_leadership_compare = false;
  // A deposed scheduler goes on answering renewals.
  bool deposed_leader_answers = false;
  // The shim ends no Task at its deadline (the agent, if it lives, does).
  bool shim_ignores_deadline = false;
  // Stops of a gang whose PREPARE failed are lost.
  bool prepare_not_undone = false;
  // PREPARE reads the newest checkpoint without opening the Output at its generation.
  bool output_not_opened = false;
  // The scheduler re-places a gang without a confirmed end 30 s before its fence_after is over.
  bool replaces_early = false;
  // The scheduler tells a caller what it has not stored yet; all else it does in order.
  bool reply_before_persist = false;
  // An executor sends on at once and stores seconds later.
  bool executor_acts_first = false;
  // The data_loader acknowledges at once and stores seconds later.
  bool loader_acts_first = false;
  // The data_loader tells of a version seconds before it is published.
  bool version_told_early = false;
  // The data_loader does not read its pins when it starts.
  bool loader_forgets_pins = false;
  // Where no room can be made for a load, what is pinned leaves.
  bool eviction_ignores_pins = false;
  // A load that is begun anew forgets what it has journalled.
  bool load_forgets_journal = false;
  // The scheduler goes on to wait for a load that has failed.
  bool failed_load_awaited = false;
  // Credentials commits without comparing that no other replica was faster.
  bool credentials_skips_compare = false;
  // Credentials signs tokens with the key that it has used first.
  bool credentials_keeps_first_key = false;
  // Credentials does not look at what a Node shows of the Task's placement.
  bool grants_unchecked = false;
  // An agent goes on renewing the certificates of Tasks that are over.
  bool agent_keeps_identities = false;
  // Credentials answers at once and stores seconds later.
  bool credentials_acts_first = false;
  // Credentials does not read its deny list when it starts.
  bool credentials_forgets_denials = false;
  // The cluster_manager takes back the cordons of all when it takes back its own.
  bool cluster_manager_uncordons_all = false;
  // The cluster_manager keeps verdicts on Nodes that the scheduler shows no more.
  bool cluster_manager_keeps_gone = false;
  // Telemetry forgets with a crash how far each producer has come.
  bool telemetry_forgets_producers = false;
  // Telemetry answers acknowledgements of a subscription at once and stores them seconds later.
  bool cursor_acts_first = false;
  // Telemetry takes acknowledgements from readers that were replaced.
  bool readers_not_fenced = false;
  // Telemetry gives records to readers before they are on disk.
  bool telemetry_shows_unstored = false;
  // The scheduler tells a caller of a maintenance window that is not stored yet.
  bool window_acts_first = false;
  // The scheduler decides by a wall clock that was read three minutes ago.
  bool scheduler_reads_late = false;
  // A new leader does not read the orders of capacity that are stored.
  bool leader_forgets_orders = false;
  // A new leader does not read the request ids that are stored.
  bool leader_forgets_requests = false;
  // A new leader does not read what Queues may have.
  bool leader_forgets_limits = false;
  // A new leader takes it that all that Jobs wait for has ended.
  bool leader_waits_for_nobody = false;
  // The scheduler takes what is only to be simulated.
  bool simulation_submits = false;
  // An agent says that a MIG instance is removed, and leaves it there.
  bool instance_not_removed = false;
  // An agent removes a Task's MIG instance as soon as the Task is told to end.
  bool instance_removed_early = false;
  // An agent makes MIG instances at the beginning of the GPU.
  bool instance_made_elsewhere = false;
  // Everybody takes a commit that failed as if it had succeeded.
  bool failed_commit_taken = false;
};

}  // namespace capstan::simulation

#endif  // CAPSTAN_INTEGRATION_SIMULATION_MUTANTS_H_
