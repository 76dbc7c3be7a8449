// The state machine of a gang: one generation at a time, each begun only once every end of the one
// before is stored. Pure functions on values; the core decides when to call them and stores the
// result.
//
//   PREPARING --all PREPARED--> STARTED --all exited 0--> ENDED
//       | an end, a cancel,        | another end, a cancel
//       | no progress              v
//       +---------------------> STOPPING --all ended--> ENDED
#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_GANG_STATE_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_GANG_STATE_H_

#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "proto/capstan/type/v1/task.pb.h"
#include "services/scheduler/core/model.h"

namespace capstan::scheduler {

// `peers` is left out of the rendezvous of gangs larger than this: Linux takes no environment
// variable that would hold them.
inline constexpr int kMaxPeers = 2'048;
// Names of the ports that agents reserve: `peer` for each rank, `master` for rank 0.
inline constexpr char kPeerPort[] = "peer";
inline constexpr char kMasterPort[] = "master";

// What a gang's state calls for.
enum class GangMove {
  kNone,
  kStart,    // all are PREPARED: decide START
  kStop,     // a Task has failed: stop the others
  kSucceed,  // all have exited 0
  kEnd,      // all ends are known, not all good: the generation is over
};

bool Succeeded(const capstan::type::v1::TaskEnd& end);
// Every Task of it.
bool Succeeded(const Gang& gang);
// Told to end so that another Job can start.
bool IsMakingWay(const Gang& gang);
// Told to end so that another Job can start on what it has beyond its least: the rest of its room
// is kept for it until all of it has ended.
bool IsShrinking(const JobEntry& job);
// Told to end so that it can start again with more Tasks: its room is kept for it, and that of the
// Tasks that are added is held.
bool IsGrowing(const JobEntry& job);
// Told to end so that it starts again at once elsewhere, where it is in nobody's way.
bool IsMoving(const JobEntry& job);
// Has ended, and is to be placed where it was, or where it is moved to, before anybody else is.
bool IsReturning(const JobEntry& job);
// Of those that return, one that is moved.
bool IsMoved(const JobEntry& job);
// Whether the Task of a live gang is one beyond the least of its TaskGroup.
bool IsSpare(const JobEntry& job, int rank);
// ` with 6 of 4..8 Tasks`, of the Job's generation; empty if it is not elastic.
std::string SizeInWords(const JobEntry& job);
GangMove NextMove(const Gang& gang);

// Gives the Job its next generation, in PREPARE. `nodes` by rank, `sizes` by TaskGroup. The former
// generation must be over.
void BeginGeneration(absl::string_view cluster, std::vector<std::string> nodes,
                     const std::vector<int>& sizes, JobEntry* job);

// Takes over what an executor says of a Task. States only move forward and an end stays what it is.
// True if anything changed.
bool ApplyObservation(const capstan::type::v1::TaskObservation& observation, int rank, Gang* gang);

// Ends a Task by decree: it is known not to run (LOST), or its Node is given up.
void EndTask(capstan::type::v1::TaskEnd::Cause cause, absl::string_view message, int rank,
             Gang* gang);

// What the rendezvous of all ranks has in common; made once for a gang, since it takes a pass over
// it.
struct RendezvousTable {
  // Address and port of each rank; empty in PREPARE.
  std::vector<std::string> peers;
  // Position among the gang's Tasks on the same Node, by rank.
  std::vector<int> local_rank;
  // Number of the gang's Tasks on each Node.
  std::map<std::string, int> local_size;
};
RendezvousTable TableOf(const Gang& gang);

capstan::type::v1::TaskKey KeyOf(const JobEntry& job, int rank);

// What the Task ought to be, as the gang's phase has it.
capstan::type::v1::DesiredTask DesiredOf(const JobEntry& job, int rank,
                                         const RendezvousTable& table);

// The Task of some generation that must not live: STOP, with what is known of its launch.
capstan::type::v1::DesiredTask StopStray(const capstan::type::v1::TaskKey& key,
                                         absl::string_view node, const JobEntry* job);

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_GANG_STATE_H_
