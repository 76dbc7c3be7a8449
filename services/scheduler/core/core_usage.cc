// What Queues used in the past, on its way to the store.
//
// A record says what the averages were at `as_of` and what was in use from then on; all that comes
// later follows from it until the use changes. So nothing is written while no use changes, and a
// Queue whose use does change is written at once or, if that was done less than a minute ago, when
// the minute is over, as of then. What a leader does not know of the time before it is bounded:
//
// - A change that is not written was made within a minute of the Queue's last write. The next
//   leader counts what it finds in use from `as_of` of that write on, whenever it begins: between
//   the two the true use is known, in that minute it may be another. So a crash counts at most a
//   minute of use wrongly, as used or as not used.
// - That holds with a crash between two writes of one step too: what was used comes before what
//   changes it. A use that is written and did not come to be is not found, and not counted.
#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "libs/time/proto_time.h"
#include "services/scheduler/core/keys.h"
#include "services/scheduler/core/scheduler_core.h"

namespace capstan::scheduler {
namespace {

constexpr absl::Duration kUsageWritePeriod = absl::Minutes(1);
// Of one transaction.
constexpr size_t kMaxUsagePuts = 64;

}  // namespace

void SchedulerCore::RestoreUsage() {
  queue_book_.Restore(model_.queue_usage);
  std::set<std::string> accelerators;
  for (const auto& [id, node] : model_.nodes) {
    AddAccelerators(node.observation(), &accelerators);
  }
  SetTree(accelerators);
  for (const auto& [id, usage] : model_.queue_usage) {
    const absl::Duration age = std::max(now_.wall - ToTime(usage.as_of()), absl::ZeroDuration());
    if (age < kUsageWritePeriod) usage_written_at_[id] = now_.boot - age;
  }
}

void SchedulerCore::SetTree(const std::set<std::string>& accelerators) {
  queue_book_.SetTree(model_.queues, accelerators);
  held_book_.SetAllChanged();
  queues_changed_ = false;
}

void SchedulerCore::RefreshTree() {
  if (queues_changed_) SetTree(queue_book_.accelerators());
}

void SchedulerCore::WriteUsage() {
  const std::set<std::string> changed = queue_book_.SettleUsage();
  usage_unwritten_.insert(changed.begin(), changed.end());
  if (changed.empty() && now_.boot < usage_due_) return;
  usage_due_ = BootTime::InfiniteFuture();
  std::vector<Write> writes;
  for (auto id = usage_unwritten_.begin(); id != usage_unwritten_.end();) {
    const auto written = usage_written_at_.find(*id);
    if (written != usage_written_at_.end() && now_.boot < written->second + kUsageWritePeriod &&
        queue_book_.KeepsUsage(*id)) {
      usage_due_ = std::min(usage_due_, written->second + kUsageWritePeriod);
      ++id;
      continue;
    }
    if (writes.empty() ||
        writes.back().puts.size() + writes.back().deletes.size() == kMaxUsagePuts) {
      writes.emplace_back();
    }
    if (absl::optional<rec::QueueUsageRecord> usage = queue_book_.UsageOf(*id)) {
      usage_written_at_[*id] = now_.boot;
      writes.back().puts.push_back(PutQueueUsage(*id, *usage));
      model_.queue_usage[*id] = *std::move(usage);
    } else if (model_.queue_usage.erase(*id) > 0) {
      usage_written_at_[*id] = now_.boot;
      writes.back().deletes.push_back({QueueUsageKey(*id), ""});
    }
    id = usage_unwritten_.erase(id);
  }
  std::erase_if(writes,
                [](const Write& write) { return write.puts.empty() && write.deletes.empty(); });
  other_writes_.insert(other_writes_.begin(), std::make_move_iterator(writes.begin()),
                       std::make_move_iterator(writes.end()));
}

}  // namespace capstan::scheduler
