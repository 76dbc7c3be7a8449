#include "libs/content/copy_and_hash.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <set>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "libs/digest/sha256.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"

namespace capstan::content {
namespace {

using ::capstan::dataloader::v1::Manifest;

constexpr size_t kCopySize = 1 << 20;

absl::StatusOr<Manifest::File> CopyFile(const SafeRoot& source, const SafeRoot& target,
                                        const std::string& path, char* buffer,
                                        const std::atomic<bool>& stop) {
  // O_NONBLOCK: a FIFO put there since the listing must not hold the thread.
  CAPSTAN_ASSIGN_OR_RETURN(const UniqueFd in,
                           source.OpenFile(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK));
  struct stat st{};
  if (::fstat(in.get(), &st) != 0) return ErrnoStatus(errno, "stat", path);
  if (!S_ISREG(st.st_mode)) {
    return status::Error(absl::StatusCode::kInvalidArgument, "NOT_A_REGULAR_FILE",
                         "'" + path + "' is not a regular file");
  }
  CAPSTAN_ASSIGN_OR_RETURN(const UniqueFd out,
                           target.OpenFile(path, O_WRONLY | O_CREAT | O_EXCL, 0444));
  Sha256 hash;
  int64_t size = 0;
  while (true) {
    if (stop) return absl::CancelledError("stopped");
    const ssize_t n = ::read(in.get(), buffer, kCopySize);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus(errno, "read", path);
    if (n == 0) break;
    const absl::string_view bytes(buffer, static_cast<size_t>(n));
    hash.Update(bytes);
    CAPSTAN_RETURN_IF_ERROR(WriteAll(out.get(), bytes, path));
    size += n;
  }
  if (::fsync(out.get()) != 0) return ErrnoStatus(errno, "fsync", path);
  Manifest::File file;
  file.set_path(path);
  file.set_size_bytes(size);
  file.set_sha256(hash.Finish());
  return file;
}

}  // namespace

absl::StatusOr<Manifest> CopyAndHash(const SafeRoot& site, const std::string& from,
                                     const std::string& to, const std::atomic<bool>& stop) {
  CAPSTAN_ASSIGN_OR_RETURN(const SafeRoot source, site.Descend(from));
  CAPSTAN_ASSIGN_OR_RETURN(const std::vector<std::string> paths, source.ListFiles(""));
  CAPSTAN_RETURN_IF_ERROR(CheckPathSet(paths));
  CAPSTAN_RETURN_IF_ERROR(site.MakeDirectories(to, 0755));
  auto remove = absl::MakeCleanup([&site, &to] { site.RemoveTree(to).IgnoreError(); });
  CAPSTAN_ASSIGN_OR_RETURN(const SafeRoot target, site.Descend(to));
  const auto buffer = std::make_unique<char[]>(kCopySize);
  Manifest manifest;
  std::set<std::string> folders;
  for (const std::string& path : paths) {
    const size_t slash = path.rfind('/');
    if (slash != std::string::npos) {
      CAPSTAN_RETURN_IF_ERROR(target.MakeDirectories(path.substr(0, slash), 0755));
      folders.insert(path.substr(0, slash));
    }
    CAPSTAN_ASSIGN_OR_RETURN(*manifest.add_files(),
                             CopyFile(source, target, path, buffer.get(), stop));
  }
  for (const std::string& folder : folders) CAPSTAN_RETURN_IF_ERROR(target.Sync(folder));
  CAPSTAN_RETURN_IF_ERROR(target.Sync(""));
  const size_t slash = to.rfind('/');
  CAPSTAN_RETURN_IF_ERROR(site.Sync(slash == std::string::npos ? "" : to.substr(0, slash)));
  std::move(remove).Cancel();
  return manifest;
}

}  // namespace capstan::content
