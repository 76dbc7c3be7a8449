#include "services/scheduler/core/round/slices.h"

namespace capstan::scheduler::round {

SliceCounts::SliceCounts(const NodeRows* rows, absl::Span<const Slice> slices)
    : rows_(rows), slices_(slices) {
  for (const Slice& slice : slices_) fits_.emplace_back(rows_->domains(slice.level).size(), 0);
}

void SliceCounts::Add(int position, int64_t more) {
  for (size_t s = slices_.size(); s > 0 && more != 0; --s) {
    const Slice& slice = slices_[s - 1];
    const int domain = rows_->domain_of(slice.level, position);
    if (domain < 0) return;
    int64_t& fit = fits_[s - 1][domain];
    const int64_t before = fit / slice.size;
    fit += more;
    more = (fit / slice.size - before) * slice.size;
  }
  total_ += more;
}

}  // namespace capstan::scheduler::round
