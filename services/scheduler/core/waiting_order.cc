#include "services/scheduler/core/waiting_order.h"

#include <algorithm>

namespace capstan::scheduler {
namespace {

// 1,024 Jobs a run at most.
constexpr int kRunBits = 10;

}  // namespace

void WaitingOrder::Insert(int32_t priority, int64_t submit_sequence, const SharedBytes& identity) {
  Level& level = levels_[-int64_t{priority}];
  std::vector<Entry>& run = level.runs[submit_sequence >> kRunBits];
  run.insert(std::lower_bound(run.begin(), run.end(), submit_sequence, IsBefore),
             {submit_sequence, identity});
  ++level.size;
  ++size_;
}

void WaitingOrder::Erase(int32_t priority, int64_t submit_sequence) {
  const auto level = levels_.find(-int64_t{priority});
  if (level == levels_.end()) return;
  const auto run = level->second.runs.find(submit_sequence >> kRunBits);
  if (run == level->second.runs.end()) return;
  const auto at =
      std::lower_bound(run->second.begin(), run->second.end(), submit_sequence, IsBefore);
  if (at == run->second.end() || at->submit_sequence != submit_sequence) return;
  run->second.erase(at);
  if (run->second.empty()) level->second.runs.erase(run);
  if (--level->second.size == 0) levels_.erase(level);
  --size_;
}

size_t WaitingOrder::CountBefore(int32_t priority, int64_t submit_sequence) const {
  size_t count = 0;
  for (const auto& [negated, level] : levels_) {
    if (negated > -int64_t{priority}) break;
    if (negated < -int64_t{priority}) {
      count += level.size;
      continue;
    }
    for (const auto& [number, run] : level.runs) {
      if (number > submit_sequence >> kRunBits) break;
      count += number < submit_sequence >> kRunBits
                   ? run.size()
                   : static_cast<size_t>(
                         std::lower_bound(run.begin(), run.end(), submit_sequence, IsBefore) -
                         run.begin());
    }
  }
  return count;
}

void WaitingOrder::ForEach(absl::FunctionRef<bool(const SharedBytes&)> look) const {
  for (const auto& [negated, level] : levels_) {
    for (const auto& [number, run] : level.runs) {
      for (const Entry& entry : run) {
        if (!look(entry.identity)) return;
      }
    }
  }
}

}  // namespace capstan::scheduler
