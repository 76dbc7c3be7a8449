// Tasks of a leaf in slices: how many a range of nodes takes.
#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_ROUND_SLICES_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_ROUND_SLICES_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "services/scheduler/core/round/fleet.h"
#include "services/scheduler/core/round/node_rows.h"

namespace capstan::scheduler::round {

// Calls `visit(Range)` with the part in `range` of each domain of the level that has one, in order.
template <typename Visit>
void VisitDomains(const NodeRows& rows, Level level, Range range, Visit visit) {
  const std::vector<Range>& domains = rows.domains(level);
  auto domain = std::upper_bound(domains.begin(), domains.end(), range.first,
                                 [](int first, const Range& d) { return first < d.last; });
  for (; domain != domains.end() && domain->first < range.last; ++domain) {
    visit(Range{std::max(domain->first, range.first), std::min(domain->last, range.last)});
  }
}

// How many tasks, in whole slices, the range takes, where `total_in(Range)` is how many it takes
// without. For tasks of one class that is exact: all of them can be placed at once. O(range).
template <typename TotalIn>
int64_t FitInSlices(const NodeRows& rows, absl::Span<const Slice> slices, Range range,
                    const TotalIn& total_in) {
  if (slices.empty()) return total_in(range);
  const int64_t size = slices.front().size;
  int64_t fit = 0;
  VisitDomains(rows, slices.front().level, range, [&](Range domain) {
    fit += FitInSlices(rows, slices.subspan(1), domain, total_in) / size * size;
  });
  return fit;
}

// The same of one range, kept while what its nodes take changes.
class SliceCounts {
 public:
  // Of nodes that take nothing yet. `rows` and `slices` outlive this.
  SliceCounts(const NodeRows* rows, absl::Span<const Slice> slices);

  // A node of the range takes `more` tasks than before. O(slices).
  void Add(int position, int64_t more);
  // Tasks in whole slices.
  int64_t total() const { return total_; }

 private:
  const NodeRows* rows_;
  absl::Span<const Slice> slices_;
  // By slice and domain of its level: tasks that fit into it, in whole slices of the next.
  std::vector<std::vector<int64_t>> fits_;
  int64_t total_ = 0;
};

}  // namespace capstan::scheduler::round

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_ROUND_SLICES_H_
