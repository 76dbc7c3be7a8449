#include "tools/capstan/cli/bundle_folder.h"

#include <fcntl.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libs/digest/fd_digest.h"
#include "libs/safe_path/safe_path.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"

namespace capstan::cli {
namespace {

constexpr int kMaxFiles = 10'000;
constexpr int64_t kMaxBytes = int64_t{1} << 30;

bool IsLeftOut(const std::string& path) {
  for (const absl::string_view part : absl::StrSplit(path, '/')) {
    if (part == ".git" || part == "__pycache__") return true;
  }
  return false;
}

absl::Status TooLarge(const std::string& folder) {
  return status::Error(absl::StatusCode::kInvalidArgument, "BUNDLE_TOO_LARGE",
                       absl::StrCat(folder,
                                    " has more than 10,000 files or 1 GiB; a Bundle is code: put "
                                    "data into a Dataset"),
                       {{"folder", folder}});
}

absl::Status DigestFile(const SafeRoot& root, dataloader::v1::Manifest::File* file) {
  CAPSTAN_ASSIGN_OR_RETURN(const UniqueFd fd, root.OpenFile(file->path(), O_RDONLY));
  CAPSTAN_ASSIGN_OR_RETURN(FdDigest digest, DigestFd(fd.get(), file->path()));
  file->set_size_bytes(digest.size);
  file->set_sha256(std::move(digest.sha256));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<dataloader::v1::Manifest> ScanBundleFolder(const std::string& folder) {
  CAPSTAN_ASSIGN_OR_RETURN(const SafeRoot root, SafeRoot::Open(folder));
  CAPSTAN_ASSIGN_OR_RETURN(std::vector<std::string> paths, root.ListFiles(""));
  std::erase_if(paths, IsLeftOut);
  if (paths.size() > kMaxFiles) return TooLarge(folder);
  CAPSTAN_RETURN_IF_ERROR(CheckPathSet(paths));
  dataloader::v1::Manifest manifest;
  int64_t total = 0;
  for (std::string& path : paths) {
    CAPSTAN_ASSIGN_OR_RETURN(const struct stat info, root.Stat(path));
    total += info.st_size;
    if (total > kMaxBytes) return TooLarge(folder);
    dataloader::v1::Manifest::File* file = manifest.add_files();
    file->set_path(std::move(path));
    file->set_executable((info.st_mode & S_IXUSR) != 0);
    CAPSTAN_RETURN_IF_ERROR(DigestFile(root, file));
  }
  return manifest;
}

}  // namespace capstan::cli
