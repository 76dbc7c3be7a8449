#ifndef CAPSTAN_LIBS_STORE_FILE_LOCK_H_
#define CAPSTAN_LIBS_STORE_FILE_LOCK_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace capstan::store {

// FAILED_PRECONDITION: another process owns it; its pid is in the metadata.
inline constexpr char kReasonLocked[] = "STORE_LOCKED";

// Ownership of a file or folder by one process, for as long as the object lives: an exclusive flock
// on a file of its own beside it, which the kernel gives up when the process ends, however it ends.
// The file stays; only the lock counts.
class FileLock {
 public:
  // Fails at once, with the owner's pid, if the lock is held.
  static absl::StatusOr<std::unique_ptr<FileLock>> Acquire(const std::string& path);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  explicit FileLock(int fd) : fd_(fd) {}

  const int fd_;
};

}  // namespace capstan::store

#endif  // CAPSTAN_LIBS_STORE_FILE_LOCK_H_
