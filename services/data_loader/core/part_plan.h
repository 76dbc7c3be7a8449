#ifndef CAPSTAN_SERVICES_DATA_LOADER_CORE_PART_PLAN_H_
#define CAPSTAN_SERVICES_DATA_LOADER_CORE_PART_PLAN_H_

#include <cstdint>
#include <deque>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "libs/time/clock.h"

namespace capstan::data_loader {

// One piece of one file: what is fetched, journalled and resumed as a whole.
struct Part {
  int32_t file = 0;
  int32_t index = 0;
  int64_t offset = 0;
  int64_t size = 0;

  friend bool operator==(const Part&, const Part&) = default;
};

// Cuts files into parts of at most `part_bytes` and orders them by bytes: the largest files first,
// so that no long file is left alone at the end; ties by file index. An empty file has one empty
// part. `sizes[i]` is the size of file i. O(n log n).
std::vector<Part> PlanParts(const std::vector<int64_t>& sizes, int64_t part_bytes);

// Rate over a sliding window, and the time the rest will take.
class RateEstimator {
 public:
  explicit RateEstimator(absl::Duration window = absl::Seconds(5)) : window_(window) {}

  // `done` never falls.
  void Add(BootTime now, int64_t done);
  double BytesPerSecond() const;
  // Unknown until there is a rate.
  absl::optional<absl::Duration> Eta(int64_t total) const;

 private:
  struct Sample {
    BootTime time;
    int64_t done;
  };
  absl::Duration window_;
  std::deque<Sample> samples_;
};

}  // namespace capstan::data_loader

#endif  // CAPSTAN_SERVICES_DATA_LOADER_CORE_PART_PLAN_H_
