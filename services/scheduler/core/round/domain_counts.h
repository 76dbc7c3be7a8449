#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_ROUND_DOMAIN_COUNTS_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_ROUND_DOMAIN_COUNTS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "services/scheduler/core/round/fleet.h"
#include "services/scheduler/core/round/node_rows.h"
#include "services/scheduler/core/round/slices.h"

namespace capstan::scheduler::round {

// How many tasks of one class, in whole slices, each domain of a level takes, kept while what its
// nodes take changes.
class DomainCounts {
 public:
  // Of nodes that take nothing yet. `rows` and `slices`, whose levels are no wider than this one,
  // outlive this.
  DomainCounts(const NodeRows* rows, Level level, absl::Span<const Slice> slices)
      : rows_(rows), level_(level), counts_(rows, slices), totals_(rows->domains(level).size()) {}

  // A node takes `more` tasks than before. O(slices).
  void Add(int position, int64_t more) {
    const int domain = rows_->domain_of(level_, position);
    if (domain < 0 || more == 0) return;
    const int64_t before = counts_.total();
    counts_.Add(position, more);
    totals_[domain] += counts_.total() - before;
  }
  // By domain, in the order of the rows'.
  const std::vector<int64_t>& totals() const { return totals_; }

 private:
  const NodeRows* rows_;
  Level level_;
  SliceCounts counts_;
  std::vector<int64_t> totals_;
};

}  // namespace capstan::scheduler::round

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_ROUND_DOMAIN_COUNTS_H_
