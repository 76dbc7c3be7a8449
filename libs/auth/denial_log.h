#ifndef CAPSTAN_LIBS_AUTH_DENIAL_LOG_H_
#define CAPSTAN_LIBS_AUTH_DENIAL_LOG_H_

#include <cstdint>
#include <string>
#include <tuple>

#include "absl/base/thread_annotations.h"
#include "absl/container/btree_map.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "libs/audit/audit_sink.h"
#include "libs/time/clock.h"

namespace capstan::auth {

// Writes refusals to the audit log: the first of a kind at once, and those that repeat it within a
// window as one record with their number when the window closes. A kind is (principal, act, code);
// so one caller costs at most two records a window and method, whatever it asks for. Thread-safe.
class DenialLog {
 public:
  // Refusals are counted by kind up to this many kinds at a time; further ones share one kind of
  // principal `(others)`.
  static constexpr size_t kMaxKinds = 4096;

  // `sink` must outlive the log.
  explicit DenialLog(audit::AuditSink* sink, absl::Duration window = absl::Minutes(1));

  void Record(audit::AuditEntry entry, BootTime now);
  // Closes the windows that are over at `now`, or all of them for InfiniteFuture. Record does it in
  // passing; an owner also calls it from a timer and at the end.
  void Flush(BootTime now);

 private:
  using Kind = std::tuple<std::string, std::string, int>;
  struct Repeats {
    BootTime window_end;
    int64_t count = 0;
    // The last one, for its resource and message.
    audit::AuditEntry last;
  };

  void FlushLocked(BootTime now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  audit::AuditSink* const sink_;
  const absl::Duration window_;
  absl::Mutex mutex_;
  absl::btree_map<Kind, Repeats> kinds_ ABSL_GUARDED_BY(mutex_);
  BootTime next_flush_ ABSL_GUARDED_BY(mutex_) = BootTime::InfiniteFuture();
};

}  // namespace capstan::auth

#endif  // CAPSTAN_LIBS_AUTH_DENIAL_LOG_H_
