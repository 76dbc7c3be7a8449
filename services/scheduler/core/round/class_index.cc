#include "services/scheduler/core/round/class_index.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace capstan::scheduler::round {

ClassIndex::ClassIndex(const NodeRows* rows, TaskClass task_class,
                       std::shared_ptr<const Standings> standings, Plane plane)
    : rows_(rows), class_(std::move(task_class)), standings_(std::move(standings)), plane_(plane) {
  for (const Quantity& quantity : class_.request) {
    inverse_.push_back(1.0 / static_cast<double>(quantity.amount));
  }
  fits_.resize(rows_->size());
  for (int p = 0; p < rows_->size(); ++p) {
    fits_[p] = static_cast<uint16_t>(FitOf(p));
    total_ += fits_[p];
  }
  masks_.resize((rows_->size() + kBlock - 1) / kBlock);
  for (size_t b = 0; b < masks_.size(); ++b) {
    masks_[b] = MaskOf(Clip(static_cast<int>(b), {0, rows_->size()}));
  }
  supers_.resize((masks_.size() + kBlocksPerSuper - 1) / kBlocksPerSuper);
  for (size_t s = 0; s < supers_.size(); ++s) SumUpSuper(static_cast<int>(s));
  synced_ = rows_->sequence();
}

void ClassIndex::SumUpSuper(int super) {
  const size_t first = static_cast<size_t>(super) * kBlocksPerSuper;
  const size_t last = std::min(first + kBlocksPerSuper, masks_.size());
  supers_[super] = 0;
  for (size_t b = first; b < last; ++b) supers_[super] |= masks_[b];
}

int ClassIndex::NextBlock(int block, int last, uint64_t wanted) const {
  while (block <= last && (masks_[block] & wanted) == 0) {
    ++block;
    while (block % kBlocksPerSuper == 0 && block <= last &&
           (supers_[block / kBlocksPerSuper] & wanted) == 0) {
      block += kBlocksPerSuper;
    }
  }
  return std::min(block, last + 1);
}

void ClassIndex::Sync() {
  for (int p = rows_->newest(); p >= 0 && rows_->changed(p) > synced_; p = rows_->older(p)) {
    Refresh(p);
  }
  synced_ = rows_->sequence();
}

int ClassIndex::FitOf(int position) const {
  if ((*standings_)[position] != Standing::kAdmitted) return 0;
  int64_t fit = kMaxFit;
  const Request& request = class_.request;
  for (size_t i = 0; i < request.size(); ++i) {
    const int64_t amount = request[i].amount;
    const int64_t available = rows_->available(position, request[i].dimension, plane_);
    if (available < amount) return 0;
    const double estimate = static_cast<double>(available) * inverse_[i];
    if (estimate > static_cast<double>(fit) + 1) continue;
    // Off by one at most: both conversions round by less than 2^-52.
    int64_t quotient = static_cast<int64_t>(estimate);
    if (quotient * amount > available) --quotient;
    if ((quotient + 1) * amount <= available) ++quotient;
    fit = std::min(fit, quotient);
  }
  if (class_.ask.has_value()) fit = std::min(fit, rows_->Room(position, *class_.ask, plane_));
  return static_cast<int>(fit);
}

uint64_t ClassIndex::MaskOf(Range range) const {
  uint64_t mask = 0;
  for (int p = range.first; p < range.last; ++p) {
    mask |= uint64_t{1} << std::min<int>(fits_[p], kTopLevel);
  }
  return mask;
}

Range ClassIndex::Clip(int block, Range range) const {
  return {std::max(block * kBlock, range.first), std::min(block * kBlock + kBlock, range.last)};
}

void ClassIndex::Refresh(int position) {
  const int fit = FitOf(position);
  const int old = fits_[position];
  if (fit == old) return;
  total_ += fit - old;
  fits_[position] = static_cast<uint16_t>(fit);
  for (int level = 0; level < kLevels; ++level) {
    if (totals_[level] == nullptr) continue;
    const int domain = rows_->domain_of(static_cast<Level>(level), position);
    if (domain >= 0) (*totals_[level])[domain] += fit - old;
  }
  const int block = position / kBlock;
  const uint64_t mask = MaskOf(Clip(block, {0, rows_->size()}));
  if (mask == masks_[block]) return;
  masks_[block] = mask;
  SumUpSuper(block / kBlocksPerSuper);
}

int64_t ClassIndex::TotalIn(Range range) const {
  if (range.first == 0 && range.last == rows_->size()) return total_;
  int64_t total = 0;
  for (int p = range.first; p < range.last; ++p) total += fits_[p];
  return total;
}

const std::vector<int64_t>& ClassIndex::TotalsOf(Level level) const {
  std::unique_ptr<std::vector<int64_t>>& totals = totals_[static_cast<int>(level)];
  if (totals == nullptr) {
    totals = std::make_unique<std::vector<int64_t>>();
    for (const Range& domain : rows_->domains(level)) totals->push_back(TotalIn(domain));
  }
  return *totals;
}

int ClassIndex::TightestIn(Range range, int64_t want) const {
  if (range.first >= range.last || want > kMaxFit) return -1;
  const int floor = static_cast<int>(std::min<int64_t>(want, kTopLevel));
  uint64_t wanted = ~uint64_t{0} << floor;
  int best = -1;
  int best_fit = kMaxFit + 1;
  const int last = (range.last - 1) / kBlock;
  for (int b = NextBlock(range.first / kBlock, last, wanted); b <= last;
       b = NextBlock(b + 1, last, wanted)) {
    const Range part = Clip(b, range);
    for (int p = part.first; p < part.last; ++p) {
      if (fits_[p] >= want && fits_[p] < best_fit) {
        best = p;
        best_fit = fits_[p];
      }
    }
    if (best_fit == want) return best;
    // Only what is tighter still; among fits that share the top bit each has to be looked at.
    if (best_fit <= kTopLevel) wanted &= (uint64_t{1} << best_fit) - 1;
  }
  return best;
}

int ClassIndex::RoomiestIn(Range range) const {
  if (range.first >= range.last) return -1;
  uint64_t wanted = ~uint64_t{1};
  int best = -1;
  int best_fit = 0;
  const int last = (range.last - 1) / kBlock;
  for (int b = NextBlock(range.first / kBlock, last, wanted); b <= last;
       b = NextBlock(b + 1, last, wanted)) {
    const Range part = Clip(b, range);
    for (int p = part.first; p < part.last; ++p) {
      if (fits_[p] > best_fit) {
        best = p;
        best_fit = fits_[p];
      }
    }
    const int level = std::min(best_fit, kTopLevel - 1);
    if (best >= 0) wanted = ~uint64_t{0} << (level + 1);
  }
  return best;
}

int ClassIndex::Tightest(Range range, int64_t want, int origin) const {
  if (origin <= range.first || origin >= range.last) return TightestIn(range, want);
  const int here = TightestIn({origin, range.last}, want);
  const int before = TightestIn({range.first, origin}, want);
  if (here < 0 || before < 0) return here < 0 ? before : here;
  return fits_[before] < fits_[here] ? before : here;
}

int ClassIndex::Roomiest(Range range, int origin) const {
  if (origin <= range.first || origin >= range.last) return RoomiestIn(range);
  const int here = RoomiestIn({origin, range.last});
  const int before = RoomiestIn({range.first, origin});
  if (here < 0 || before < 0) return here < 0 ? before : here;
  return fits_[before] > fits_[here] ? before : here;
}

}  // namespace capstan::scheduler::round
