#include "services/data_loader/core/part_plan.h"

#include <algorithm>
#include <numeric>

namespace capstan::data_loader {

std::vector<Part> PlanParts(const std::vector<int64_t>& sizes, int64_t part_bytes) {
  std::vector<int32_t> order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&sizes](int32_t a, int32_t b) { return sizes[a] > sizes[b]; });
  std::vector<Part> parts;
  for (const int32_t file : order) {
    int32_t index = 0;
    int64_t offset = 0;
    do {
      const int64_t size = std::min(part_bytes, sizes[file] - offset);
      parts.push_back(Part{file, index++, offset, size});
      offset += size;
    } while (offset < sizes[file]);
  }
  return parts;
}

void RateEstimator::Add(BootTime now, int64_t done) {
  samples_.push_back({now, done});
  // The newest sample outside the window stays as the window's left edge.
  while (samples_.size() > 2 && now - samples_[1].time >= window_) samples_.pop_front();
}

double RateEstimator::BytesPerSecond() const {
  if (samples_.size() < 2) return 0;
  const absl::Duration span = samples_.back().time - samples_.front().time;
  if (span <= absl::ZeroDuration()) return 0;
  return static_cast<double>(samples_.back().done - samples_.front().done) /
         absl::ToDoubleSeconds(span);
}

absl::optional<absl::Duration> RateEstimator::Eta(int64_t total) const {
  const double rate = BytesPerSecond();
  if (rate <= 0) return absl::nullopt;
  const int64_t rest = std::max<int64_t>(0, total - samples_.back().done);
  return absl::Seconds(static_cast<double>(rest) / rate);
}

}  // namespace capstan::data_loader
