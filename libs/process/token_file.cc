#include "libs/process/token_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

#include "absl/strings/str_format.h"
#include "libs/status/error.h"

namespace capstan::process {

absl::StatusOr<UniqueFd> OpenTokenFile(const std::string& path) {
  if (path.empty()) return UniqueFd();
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd.valid()) {
    if (errno == ENOENT) return fd;
    return ErrnoStatus(errno, "opening", path);
  }
  struct stat info = {};
  if (fstat(fd.get(), &info) != 0) return ErrnoStatus(errno, "reading", path);
  if ((info.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return status::Error(
        absl::StatusCode::kFailedPrecondition, "TOKEN_FILE_READABLE",
        absl::StrFormat("`%s` has mode %04o, so others may have read the join token; revoke what "
                        "joined by it, and give a new token in a file of mode 0600.",
                        path, info.st_mode & 07777),
        {{"file", path}});
  }
  return fd;
}

}  // namespace capstan::process
