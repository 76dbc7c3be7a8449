#ifndef CAPSTAN_LIBS_AUDIT_AUDIT_LOG_H_
#define CAPSTAN_LIBS_AUDIT_AUDIT_LOG_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "libs/audit/audit_file.h"
#include "libs/audit/audit_sink.h"
#include "libs/time/clock.h"

namespace capstan::audit {

// A process's hash chain in an append-only file. Thread-safe; records that come while a sync is
// under way share the next one. Record blocks for as long as the disk takes.
class AuditLog final : public AuditSink {
 public:
  // Opens or makes the file (0600) and verifies it whole. The bytes of an append that a crash cut
  // off were never acknowledged; they are put aside in `<path>.torn-<offset>` and cut. DATA_LOSS if
  // the chain is broken: then nothing may be audited, and nothing audited may happen. UNAVAILABLE
  // if another process has the file open. `clock` must outlive the log.
  static absl::StatusOr<std::unique_ptr<AuditLog>> Open(const std::string& path, std::string chain,
                                                        const Clock* clock);
  ~AuditLog() override;

  AuditLog(const AuditLog&) = delete;
  AuditLog& operator=(const AuditLog&) = delete;

  // OK once the record is on disk. The first failure to write is final: all later ones fail too.
  absl::Status Record(const AuditEntry& entry) override;

  // Of the records on disk.
  ChainHead head() const;

 private:
  AuditLog(int fd, std::string chain, const Clock* clock, ChainHead head);

  // Writes and syncs what is pending, with the mutex released meanwhile.
  void Flush() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int fd_;
  const std::string chain_;
  const Clock* const clock_;
  mutable absl::Mutex mutex_;
  // Of the newest record, on disk or pending; of those on disk.
  ChainHead newest_ ABSL_GUARDED_BY(mutex_);
  ChainHead durable_ ABSL_GUARDED_BY(mutex_);
  std::string pending_ ABSL_GUARDED_BY(mutex_);
  bool flushing_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace capstan::audit

#endif  // CAPSTAN_LIBS_AUDIT_AUDIT_LOG_H_
