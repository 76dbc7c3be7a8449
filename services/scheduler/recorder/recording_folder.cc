#include "services/scheduler/recorder/recording_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/digest/fd_digest.h"
#include "libs/safe_path/folder_names.h"
#include "libs/safe_path/safe_path.h"

namespace capstan::scheduler {
namespace {

constexpr char kSuffix[] = ".recording";
constexpr size_t kMostFiles = 64;

}  // namespace

std::vector<RecordingFile> RecordingsIn(const std::string& folder) {
  std::vector<RecordingFile> files;
  for (const std::string& name : FolderNames(folder)) {
    struct stat info = {};
    RecordingFile file{absl::StrCat(folder, "/", name), 0};
    if (!absl::EndsWith(name, kSuffix) || lstat(file.path.c_str(), &info) != 0 ||
        !S_ISREG(info.st_mode)) {
      continue;
    }
    file.bytes = info.st_size;
    files.push_back(std::move(file));
  }
  return files;
}

absl::StatusOr<std::string> MakeRoomForRecording(const std::string& folder, int64_t keep_bytes,
                                                 absl::Time begin, int64_t leader_epoch) {
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return ErrnoStatus(errno, "making", folder);
  }
  const std::vector<RecordingFile> files = RecordingsIn(folder);
  int64_t bytes = 0;
  for (const RecordingFile& file : files) bytes += file.bytes;
  size_t left = files.size();
  for (const RecordingFile& file : files) {
    if (bytes <= keep_bytes && left < kMostFiles) break;
    if (unlink(file.path.c_str()) != 0) return ErrnoStatus(errno, "removing", file.path);
    bytes -= file.bytes;
    --left;
  }
  return absl::StrCat(folder, "/", absl::FormatTime("%Y%m%dT%H%M%E3S", begin, absl::UTCTimeZone()),
                      "Z-epoch-", leader_epoch, kSuffix);
}

std::string OwnBuildId() {
  const UniqueFd fd(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return "unknown";
  const absl::StatusOr<FdDigest> digest = DigestFd(fd.get(), "/proc/self/exe");
  if (!digest.ok()) return "unknown";
  return absl::BytesToHexString(digest->sha256);
}

}  // namespace capstan::scheduler
