#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_ROUND_CLASS_INDEX_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_ROUND_CLASS_INDEX_H_

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "services/scheduler/core/round/fleet.h"
#include "services/scheduler/core/round/node_rows.h"

namespace capstan::scheduler::round {

// Whether a node takes tasks under some constraints, room aside, and what is first in the way.
enum class Standing : uint8_t { kAdmitted, kSelector, kTaint, kUnschedulable };
// By position.
using Standings = std::vector<Standing>;

// How many tasks of one class each node takes, and which node is best. Exact: Sync() catches up
// with what changed since the last time, so that answers depend on the rows alone and not on
// history.
//
// Each node's *fit* (tasks that it takes) is a number of 16 bits; each block of 32 nodes has a mask
// of the fits in it, where all above 62 share a bit, and each 16 blocks have one of theirs. A
// search reads masks, then one block.
class ClassIndex {
 public:
  // Most tasks that one node is counted for.
  static constexpr int kMaxFit = 65535;

  // `rows` outlives this.
  ClassIndex(const NodeRows* rows, TaskClass task_class, std::shared_ptr<const Standings> standings,
             Plane plane);

  // To be called before anything below whenever rows may have changed. O(nodes changed since).
  void Sync();

  int fit(int position) const { return fits_[position]; }
  // Sum of all fits, and of those in a range. O(1), O(range).
  int64_t total() const { return total_; }
  int64_t TotalIn(Range range) const;
  // The same of each domain of the level, as the rows have them. O(nodes) at the first call, O(1)
  // from then on.
  const std::vector<int64_t>& TotalsOf(Level level) const;

  // The position in the range with the smallest fit of at least `want` (> 0); the first such from
  // `origin` on, going round. -1 if there is none.
  int Tightest(Range range, int64_t want, int origin) const;
  // The position with the largest fit, likewise; -1 if every fit is 0.
  int Roomiest(Range range, int origin) const;

  const Request& request() const { return class_.request; }

 private:
  static constexpr int kBlock = 32;
  static constexpr int kBlocksPerSuper = 16;
  static constexpr int kTopLevel = 63;

  int FitOf(int position) const;
  void Refresh(int position);
  void SumUpSuper(int super);
  // The first block from `block` to `last` with a fit that `wanted` names; `last` + 1 if none has.
  int NextBlock(int block, int last, uint64_t wanted) const;
  uint64_t MaskOf(Range range) const;
  Range Clip(int block, Range range) const;
  int TightestIn(Range range, int64_t want) const;
  int RoomiestIn(Range range) const;

  const NodeRows* rows_;
  TaskClass class_;
  // 1 / amount.
  std::vector<double> inverse_;
  std::shared_ptr<const Standings> standings_;
  Plane plane_;
  uint64_t synced_ = 0;
  std::vector<uint16_t> fits_;
  // By block, and of 16 blocks at a time.
  std::vector<uint64_t> masks_;
  std::vector<uint64_t> supers_;
  int64_t total_ = 0;
  // By level and domain, of the levels that were asked for; null of others.
  mutable std::array<std::unique_ptr<std::vector<int64_t>>, kLevels> totals_;
};

}  // namespace capstan::scheduler::round

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_ROUND_CLASS_INDEX_H_
