#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_WAITING_ORDER_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_WAITING_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/functional/function_ref.h"
#include "services/scheduler/core/shared_bytes.h"

namespace capstan::scheduler {

// Jobs, each by what it is known by, in the order in which those that wait are placed: priority,
// then submission. Of two no submission is the same. Some 24 bytes each. For one thread.
class WaitingOrder {
 public:
  // It must not be there.
  void Insert(int32_t priority, int64_t submit_sequence, const SharedBytes& identity);
  // Nothing if it is not there.
  void Erase(int32_t priority, int64_t submit_sequence);

  size_t size() const { return size_; }
  // How many come before such a one. O(Jobs of its priority / 1024).
  size_t CountBefore(int32_t priority, int64_t submit_sequence) const;
  // In order, until `look` says no.
  void ForEach(absl::FunctionRef<bool(const SharedBytes& identity)> look) const;

 private:
  struct Entry {
    int64_t submit_sequence;
    SharedBytes identity;
  };
  struct Level {
    size_t size = 0;
    // By the sequence without its last digits; each sorted.
    absl::btree_map<int64_t, std::vector<Entry>> runs;
  };
  static bool IsBefore(const Entry& entry, int64_t submit_sequence) {
    return entry.submit_sequence < submit_sequence;
  }

  size_t size_ = 0;
  absl::btree_map<int64_t, Level> levels_;  // by negated priority
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_WAITING_ORDER_H_
