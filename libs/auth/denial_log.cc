#include "libs/auth/denial_log.h"

#include <algorithm>
#include <utility>

namespace capstan::auth {

DenialLog::DenialLog(audit::AuditSink* sink, absl::Duration window)
    : sink_(sink), window_(window) {}

void DenialLog::Record(audit::AuditEntry entry, BootTime now) {
  absl::MutexLock lock(&mutex_);
  if (now >= next_flush_) FlushLocked(now);
  Kind kind(entry.principal, entry.act, entry.outcome_code);
  if (!kinds_.contains(kind) && kinds_.size() >= kMaxKinds) {
    entry.principal = "(others)";
    kind = Kind(entry.principal, "", 0);
  }
  auto [it, first] = kinds_.try_emplace(std::move(kind));
  if (first) {
    it->second.window_end = now + window_;
    next_flush_ = std::min(next_flush_, it->second.window_end);
    // The call is refused whether or not the record could be written.
    sink_->Record(entry).IgnoreError();
    return;
  }
  ++it->second.count;
  it->second.last = std::move(entry);
}

void DenialLog::Flush(BootTime now) {
  absl::MutexLock lock(&mutex_);
  FlushLocked(now);
}

void DenialLog::FlushLocked(BootTime now) {
  next_flush_ = BootTime::InfiniteFuture();
  for (auto it = kinds_.begin(); it != kinds_.end();) {
    Repeats& repeats = it->second;
    if (repeats.window_end > now) {
      next_flush_ = std::min(next_flush_, repeats.window_end);
      ++it;
      continue;
    }
    if (repeats.count > 0) {
      repeats.last.repeats = repeats.count;
      sink_->Record(repeats.last).IgnoreError();
    }
    it = kinds_.erase(it);
  }
}

}  // namespace capstan::auth
