// A Job, as the scheduler's core and its readers have it in hand.
#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_JOB_ENTRY_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_JOB_ENTRY_H_

#include <compare>
#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "services/scheduler/core/records.pb.h"
#include "services/scheduler/core/shared_bytes.h"

namespace capstan::scheduler {

namespace rec = ::capstan::scheduler::records::v1;

// QUEUED, and why: stands with no Queue yet.
inline constexpr char kAwaitsJobs[] = "DEPENDENCY";
// QUEUED, and why: as many elements of its array have begun as may.
inline constexpr char kAwaitsTurn[] = "ARRAY_LIMIT";
// QUEUED, and why: somebody has asked that it does not start.
inline constexpr char kHeld[] = "HELD";
// QUEUED, and why: Nodes that were ordered are kept for it.
inline constexpr char kOrdered[] = "ORDERED";
// QUEUED, and why: it starts again at once, and its place is kept.
inline constexpr char kReturning[] = "RETURNING";

// A Node, by the ids in its name.
struct NodeId {
  std::string cluster;
  std::string node;

  // `clusters/{c}/nodes/{n}`.
  std::string Name() const;
  friend auto operator<=>(const NodeId&, const NodeId&) = default;
};

// The generation a Job's gang is in, or was in last.
struct Gang {
  rec::GangHeadRecord head;
  // By rank: node ids within head.cluster().
  std::vector<std::string> nodes;
  // By rank.
  std::vector<rec::TaskRecord> tasks;
  // By rank, where its MIG instance is; of a Task that asks for none it says nothing. Empty if none
  // of the gang does.
  std::vector<rec::MigPlace> mig = {};

  NodeId node(int rank) const { return {head.cluster(), nodes[rank]}; }
  bool live() const { return head.phase() != rec::GangHeadRecord::PHASE_ENDED; }
  bool ended(int rank) const;
  bool all_ended() const;
};

struct JobEntry {
  rec::JobSpecRecord spec;
  rec::JobStateRecord state;
  absl::optional<Gang> gang;
  // Of a Job in a JobTable: see IdentityUid in record_pool.h.
  SharedBytes identity;

  const std::string& uid() const { return spec.uid(); }
  bool final() const;
  bool live() const { return gang.has_value() && gang->live(); }
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_JOB_ENTRY_H_
