#include "libs/kube/config/text_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "libs/safe_path/safe_path.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"

namespace capstan::kube {
namespace {

constexpr size_t kMaxBytes = 1 << 20;

}  // namespace

absl::StatusOr<TextFile> ReadTextFile(const std::string& path, bool regular_only) {
  const int flags = O_RDONLY | O_CLOEXEC | O_NOCTTY | (regular_only ? O_NONBLOCK : 0);
  const UniqueFd fd(open(path.c_str(), flags));
  if (!fd.valid()) return ErrnoStatus(errno, "cannot open", path);
  struct stat found{};
  if (fstat(fd.get(), &found) != 0) return ErrnoStatus(errno, "cannot read", path);
  if (S_ISDIR(found.st_mode)) return ErrnoStatus(EISDIR, "cannot read", path);
  if (regular_only && !S_ISREG(found.st_mode)) {
    return status::Error(absl::StatusCode::kFailedPrecondition, "WRONG_FILE_TYPE",
                         "cannot read '" + path + "': it is no regular file", {{"path", path}});
  }
  TextFile file;
  file.mode = found.st_mode & 07777;
  CAPSTAN_ASSIGN_OR_RETURN(file.text, ReadAll(fd.get(), kMaxBytes, path));
  return file;
}

}  // namespace capstan::kube
