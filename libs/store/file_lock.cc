#include "libs/store/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "libs/status/error.h"

namespace capstan::store {
namespace {

std::string ReadPid(int fd) {
  char buffer[32];
  const ssize_t n = ::pread(fd, buffer, sizeof(buffer), 0);
  if (n <= 0) return "unknown";
  return std::string(absl::StripAsciiWhitespace(absl::string_view(buffer, n)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<FileLock>> FileLock::Acquire(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("opening ", path));
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    const std::string pid = ReadPid(fd);
    ::close(fd);
    if (error != EWOULDBLOCK) return absl::ErrnoToStatus(error, absl::StrCat("locking ", path));
    return status::Error(absl::StatusCode::kFailedPrecondition, kReasonLocked,
                         absl::StrCat(path, " is locked: process ", pid, " uses the store"),
                         {{"path", path}, {"pid", pid}});
  }
  const std::string pid = absl::StrCat(::getpid(), "\n");
  // Only for the message above: that it fails on a full disk is no reason not to start.
  if (::ftruncate(fd, 0) == 0 && ::pwrite(fd, pid.data(), pid.size(), 0) < 0) {
    [[maybe_unused]] const int emptied = ::ftruncate(fd, 0);
  }
  return std::unique_ptr<FileLock>(new FileLock(fd));
}

FileLock::~FileLock() { ::close(fd_); }

}  // namespace capstan::store
