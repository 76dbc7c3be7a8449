// What an engine that leads, and the view beside it, hold for each Job that waits.
#ifndef CAPSTAN_SERVICES_SCHEDULER_RESIDENT_BYTES_H_
#define CAPSTAN_SERVICES_SCHEDULER_RESIDENT_BYTES_H_

#include "absl/status/statusor.h"

namespace capstan::scheduler {

enum class WaitingSpecs {
  // 20 shapes in 50 Queues: most Jobs have the spec of another.
  kAlike,
  // About 1 KiB each, and no two the same.
  kLarge
};

struct ResidentBytes {
  // Of the heap, for each Job.
  double view = 0;
  // Core and queues, beside the view that has the same Jobs.
  double engine = 0;
  // What WatchDemand tells of.
  double demand = 0;
  // Of the specs as they are stored.
  double spec_bytes = 0;
};

// So many wait in an Engine and a CommittedView over a MemoryStore, which is not counted, wired as
// in the service. They have been tried before; no Node is there.
absl::StatusOr<ResidentBytes> MeasureResidentBytes(int jobs, WaitingSpecs specs);

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_RESIDENT_BYTES_H_
