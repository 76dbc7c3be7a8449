// Ended Jobs leave the store once the archive has them.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/time/proto_time.h"
#include "services/scheduler/core/keys.h"
#include "services/scheduler/core/render.h"
#include "services/scheduler/core/scheduler_core.h"

namespace capstan::scheduler {
namespace {

// Of one request to the archive.
constexpr size_t kMaxBatchJobs = 32;
constexpr size_t kMaxBatchBytes = 1 << 20;
constexpr size_t kMaxJobBytes = 3 << 20;
// Ends are wall times, timers are not: looked at anew at least so often.
constexpr absl::Duration kLookAgain = absl::Hours(1);

}  // namespace

void SchedulerCore::ArmRetirement() {
  // The answer arms it.
  if (!archiving_.empty()) return;
  if (finished_.empty()) {
    retire_at_ = BootTime::InfiniteFuture();
    return;
  }
  absl::Duration wait = absl::ZeroDuration();
  if (finished_.size() <= config_.max_finished_jobs) {
    const absl::Time due = finished_.begin()->first + config_.keep_finished_for;
    wait = std::clamp(due - now_.wall, absl::ZeroDuration(), kLookAgain);
  }
  retire_at_ = now_.boot + wait;
}

void SchedulerCore::Retire() {
  if (retire_at_ > now_.boot || !archiving_.empty()) return;
  ArchiveJobs batch;
  size_t bytes = 0;
  size_t left = finished_.size();
  for (const auto& [end, uid] : finished_) {
    const bool due =
        left-- > config_.max_finished_jobs || end + config_.keep_finished_for <= now_.wall;
    if (!due || batch.jobs.size() == kMaxBatchJobs) break;
    const JobEntry& job = *FindJob(uid);
    const auto pins = model_.pin_releases.lower_bound({uid, 0});
    // Something of it is still to be done; it is looked at again.
    if (job.live() || dependents_.count(uid) > 0 ||
        (pins != model_.pin_releases.end() && pins->first.first == uid))
      continue;
    capstan::scheduler::v1::Job rendered = RenderJob(job);
    // What no message could carry would keep all behind it here for ever.
    if (rendered.ByteSizeLong() > kMaxJobBytes) rendered.clear_tasks();
    bytes += rendered.ByteSizeLong();
    if (!batch.jobs.empty() && bytes > kMaxBatchBytes) break;
    archiving_.insert(uid);
    batch.jobs.push_back(std::move(rendered));
  }
  if (batch.jobs.empty()) {
    ArmRetirement();
    retire_at_ = std::max(retire_at_, now_.boot + config_.archive_retry);
    return;
  }
  retire_at_ = BootTime::InfiniteFuture();
  effects_.push_back(std::move(batch));
}

void SchedulerCore::RemoveJob(const std::string& uid) {
  const JobEntry& job = *FindJob(uid);
  finished_.erase({ToTime(job.state.end_time()), uid});
  // One transaction: readers see it whole or not at all.
  Write write;
  write.deletes.push_back({JobSpecKey(uid), ""});
  write.deletes.push_back({JobStateKey(uid), ""});
  if (job.gang.has_value()) {
    const int64_t generation = job.gang->head.generation();
    write.deletes.push_back({GangHeadKey(uid), ""});
    for (const std::string& prefix :
         {PlacementPrefix(uid, generation), TaskPrefix(uid, generation)}) {
      write.deletes.push_back({prefix, store::PrefixEnd(prefix)});
    }
  }
  other_writes_.push_back(std::move(write));
  model_.jobs.Erase(uid);
}

void SchedulerCore::On(const JobsArchived& event) {
  for (const std::string& uid : event.uids) {
    if (archiving_.erase(uid) > 0) RemoveJob(uid);
  }
  ArmRetirement();
}

void SchedulerCore::On(const ArchiveFailed& event) {
  for (const std::string& uid : event.uids) archiving_.erase(uid);
  ArmRetirement();
  retire_at_ = std::max(retire_at_, now_.boot + config_.archive_retry);
}

}  // namespace capstan::scheduler
