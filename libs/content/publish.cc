#include "libs/content/publish.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/content/manifest.h"
#include "libs/crash_point/crash_point.h"
#include "libs/crash_point/points.h"
#include "libs/digest/sha256.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"

namespace capstan::content {
namespace {

using ::capstan::dataloader::v1::Manifest;

constexpr size_t kReadSize = 1 << 20;
// A million files with paths of 200 bytes.
constexpr size_t kMaxManifestBytes = 256 << 20;

}  // namespace

absl::StatusOr<Manifest> HashFolder(const SafeRoot& site, const std::string& folder,
                                    const std::atomic<bool>& stop) {
  CAPSTAN_ASSIGN_OR_RETURN(const SafeRoot root, site.Descend(folder));
  CAPSTAN_ASSIGN_OR_RETURN(const std::vector<std::string> paths, root.ListFiles(""));
  CAPSTAN_RETURN_IF_ERROR(CheckPathSet(paths));
  Manifest manifest;
  const auto buffer = std::make_unique<char[]>(kReadSize);
  for (const std::string& path : paths) {
    CAPSTAN_ASSIGN_OR_RETURN(const UniqueFd fd, root.OpenFile(path, O_RDONLY));
    Sha256 hash;
    int64_t size = 0;
    while (true) {
      if (stop) return absl::CancelledError("stopped");
      const ssize_t n = ::read(fd.get(), buffer.get(), kReadSize);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return ErrnoStatus(errno, "read", path);
      if (n == 0) break;
      hash.Update(absl::string_view(buffer.get(), static_cast<size_t>(n)));
      size += n;
    }
    struct stat st{};
    if (::fstat(fd.get(), &st) != 0) return ErrnoStatus(errno, "stat", path);
    Manifest::File& file = *manifest.add_files();
    file.set_path(path);
    file.set_size_bytes(size);
    file.set_sha256(hash.Finish());
    file.set_executable((st.st_mode & S_IXUSR) != 0);
  }
  return manifest;
}

absl::Status PublishAs(const SafeRoot& site, const std::string& folder, const std::string& target,
                       const Manifest& manifest) {
  CAPSTAN_ASSIGN_OR_RETURN(const SafeRoot root, site.Descend(folder));
  std::set<std::string> folders;
  // All modes first: the file system then writes them in one transaction, at the first sync.
  for (const Manifest::File& file : manifest.files()) {
    CAPSTAN_ASSIGN_OR_RETURN(const UniqueFd fd, root.OpenFile(file.path(), O_RDONLY));
    if (::fchmod(fd.get(), file.executable() ? 0555 : 0444) != 0) {
      return ErrnoStatus(errno, "chmod", file.path());
    }
    for (size_t slash = file.path().rfind('/'); slash != std::string::npos;
         slash = slash == 0 ? std::string::npos : file.path().rfind('/', slash - 1)) {
      if (!folders.insert(file.path().substr(0, slash)).second) break;
    }
  }
  for (const std::string& inner : folders) {
    CAPSTAN_ASSIGN_OR_RETURN(const UniqueFd fd, root.OpenFile(inner, O_RDONLY | O_DIRECTORY));
    if (::fchmod(fd.get(), 0755) != 0) return ErrnoStatus(errno, "chmod", inner);
  }
  if (::fchmod(root.fd(), 0755) != 0) return ErrnoStatus(errno, "chmod", folder);
  for (const Manifest::File& file : manifest.files()) {
    CAPSTAN_RETURN_IF_ERROR(root.Sync(file.path()));
  }
  for (const std::string& inner : folders) CAPSTAN_RETURN_IF_ERROR(root.Sync(inner));
  CAPSTAN_RETURN_IF_ERROR(root.Sync(""));

  CAPSTAN_RETURN_IF_ERROR(WriteFileAtomically(absl::StrCat(site.path(), "/", target, ".manifest"),
                                              manifest.SerializeAsString(), 0444));
  CrashPoint(crash::kContentBeforeRename);
  const absl::Status renamed = site.Rename(folder, target, /*replace=*/false);
  if (absl::IsAlreadyExists(renamed)) return site.RemoveTree(folder);
  CAPSTAN_RETURN_IF_ERROR(renamed);
  CrashPoint(crash::kContentRenamed);
  return site.Sync(target.substr(0, target.rfind('/')));
}

absl::Status PublishFolder(const SafeRoot& site, const std::string& folder,
                           const std::string& collection, const Manifest& manifest) {
  CAPSTAN_ASSIGN_OR_RETURN(const std::string hex, DigestHex(ManifestDigest(manifest)));
  return PublishAs(site, folder, absl::StrCat(collection, "/", hex), manifest);
}

absl::StatusOr<Manifest> ReadManifest(const SafeRoot& site, const std::string& target) {
  const std::string path = target + ".manifest";
  CAPSTAN_ASSIGN_OR_RETURN(const UniqueFd fd, site.OpenFile(path, O_RDONLY));
  CAPSTAN_ASSIGN_OR_RETURN(const std::string bytes, ReadAll(fd.get(), kMaxManifestBytes, path));
  Manifest manifest;
  if (!manifest.ParseFromString(bytes)) {
    return status::Error(absl::StatusCode::kDataLoss, "MANIFEST_CORRUPT",
                         absl::StrCat("manifest of '", target, "' can't be parsed"));
  }
  return manifest;
}

}  // namespace capstan::content
