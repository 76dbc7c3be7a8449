#include "libs/audit/audit_log.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/crash_point/crash_point.h"
#include "libs/crash_point/points.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"

namespace capstan::audit {
namespace {

absl::Status WriteAll(int fd, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return absl::ErrnoToStatus(errno, "cannot write the audit log");
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadAll(int fd) {
  std::string bytes;
  char buffer[1 << 16];
  while (true) {
    const ssize_t n = read(fd, buffer, sizeof(buffer));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return absl::ErrnoToStatus(errno, "cannot read the audit log");
    if (n == 0) return bytes;
    bytes.append(buffer, static_cast<size_t>(n));
  }
}

absl::Status SyncFolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", folder));
  const absl::Cleanup close_fd = [fd] { close(fd); };
  if (fsync(fd) != 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot sync ", folder));
  return absl::OkStatus();
}

// Keeps the torn end for whoever wants to look at it.
absl::Status PutAside(const std::string& path, int64_t offset, absl::string_view bytes) {
  const std::string aside = absl::StrCat(path, ".torn-", offset);
  const int fd = open(aside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot create ", aside));
  const absl::Cleanup close_fd = [fd] { close(fd); };
  CAPSTAN_RETURN_IF_ERROR(WriteAll(fd, bytes));
  if (fsync(fd) != 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot sync ", aside));
  return absl::OkStatus();
}

}  // namespace

AuditLog::AuditLog(int fd, std::string chain, const Clock* clock, ChainHead head)
    : fd_(fd), chain_(std::move(chain)), clock_(clock), newest_(head), durable_(std::move(head)) {}

AuditLog::~AuditLog() { close(fd_); }

absl::StatusOr<std::unique_ptr<AuditLog>> AuditLog::Open(const std::string& path, std::string chain,
                                                         const Clock* clock) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
  absl::Cleanup close_fd = [fd] { close(fd); };
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    return absl::UnavailableError(absl::StrCat(path, " is in use by another process"));
  }
  CAPSTAN_ASSIGN_OR_RETURN(const std::string bytes, ReadAll(fd));
  CAPSTAN_ASSIGN_OR_RETURN(
      const ChainContent content,
      VerifyChain(bytes, chain, absl::nullopt, [](const event::v1::AuditRecord&) {}));
  if (content.torn_bytes > 0) {
    CAPSTAN_RETURN_IF_ERROR(
        PutAside(path, content.valid_bytes,
                 absl::string_view(bytes).substr(static_cast<size_t>(content.valid_bytes))));
    if (ftruncate(fd, content.valid_bytes) != 0 || fsync(fd) != 0) {
      return absl::ErrnoToStatus(errno, absl::StrCat("cannot cut ", path));
    }
  }
  CAPSTAN_RETURN_IF_ERROR(SyncFolderOf(path));
  std::move(close_fd).Cancel();
  return std::unique_ptr<AuditLog>(new AuditLog(fd, std::move(chain), clock, content.head));
}

absl::Status AuditLog::Record(const AuditEntry& entry) {
  event::v1::AuditRecord record;
  record.set_chain(chain_);
  record.set_principal(entry.principal);
  record.set_act(entry.act);
  record.set_resource(entry.resource);
  record.set_outcome_code(entry.outcome_code);
  record.set_message(entry.message);
  record.set_repeats(entry.repeats);
  if (record.ByteSizeLong() > (32 << 10)) {
    return absl::InvalidArgumentError("the audit record is larger than 32 KiB");
  }
  const timespec now = absl::ToTimespec(clock_->Read().wall);
  record.mutable_record_time()->set_seconds(now.tv_sec);
  record.mutable_record_time()->set_nanos(static_cast<int32_t>(now.tv_nsec));

  absl::MutexLock lock(&mutex_);
  if (!failure_.ok()) return failure_;
  const int64_t sequence = newest_.sequence + 1;
  record.set_sequence(sequence);
  record.set_previous_hash(newest_.hash);
  EncodedRecord encoded = EncodeRecord(record);
  pending_ += encoded.frame;
  newest_ = {sequence, std::move(encoded.hash)};
  while (failure_.ok() && durable_.sequence < sequence) {
    if (flushing_) {
      mutex_.Await(absl::Condition(+[](bool* flushing) { return !*flushing; }, &flushing_));
    } else {
      Flush();
    }
  }
  return durable_.sequence >= sequence ? absl::OkStatus() : failure_;
}

void AuditLog::Flush() {
  flushing_ = true;
  const std::string bytes = std::exchange(pending_, std::string());
  const ChainHead head = newest_;
  mutex_.Unlock();
  absl::Status status = WriteAll(fd_, bytes);
  if (status.ok()) {
    CrashPoint(crash::kAuditWritten);
    if (fdatasync(fd_) != 0) status = absl::ErrnoToStatus(errno, "cannot sync the audit log");
  }
  if (status.ok()) CrashPoint(crash::kAuditSynced);
  mutex_.Lock();
  if (status.ok()) {
    durable_ = head;
  } else {
    failure_ = status::Error(absl::StatusCode::kUnavailable, "AUDIT_UNAVAILABLE",
                             absl::StrCat("audited acts are refused: ", status.message()));
  }
  flushing_ = false;
}

ChainHead AuditLog::head() const {
  absl::MutexLock lock(&mutex_);
  return durable_;
}

}  // namespace capstan::audit
