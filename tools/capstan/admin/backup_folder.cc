#include "tools/capstan/admin/backup_folder.h"

#include <fcntl.h>

#include <cerrno>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/util/json_util.h"
#include "libs/digest/sha256.h"
#include "libs/safe_path/safe_path.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "libs/store/backup.h"
#include "libs/store/backup_file.h"

namespace capstan::admin {
namespace {

using v1::BackupManifest;

// Keys and settings are small.
constexpr size_t kMaxFileBytes = 1 << 20;

}  // namespace

absl::StatusOr<std::string> ReadSmallFile(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(errno, "opening", path);
  return ReadAll(fd.get(), kMaxFileBytes, path);
}

absl::Status BlameFile(const absl::Status& status) {
  if (status::Reason(status) != store::kReasonBackupCorrupt) return status;
  return status::Error(absl::StatusCode::kInvalidArgument, store::kReasonBackupCorrupt,
                       absl::string_view(status.message().data(), status.message().size()));
}

absl::StatusOr<BackupManifest> ReadManifest(const std::string& from) {
  const std::string path = absl::StrCat(from, "/", kBackupManifest);
  BackupManifest manifest;
  const absl::StatusOr<std::string> text = ReadSmallFile(path);
  std::string why;
  if (!text.ok()) {
    why = std::string(text.status().message());
  } else if (const auto read = google::protobuf::util::JsonStringToMessage(*text, &manifest);
             !read.ok()) {
    why = absl::StrCat(path, ": ", std::string(read.message()));
  }
  if (!why.empty()) {
    return status::Error(absl::StatusCode::kInvalidArgument, "NOT_A_BACKUP",
                         absl::StrCat(from, " is no backup of a platform: ", why));
  }
  if (manifest.format() > kBackupFormat) {
    return status::Error(
        absl::StatusCode::kFailedPrecondition, store::kReasonBackupTooNew,
        absl::StrCat(from, " has format ", manifest.format(), "; this program knows up to ",
                     kBackupFormat, ": use the newer one"));
  }
  for (const BackupManifest::Store& entry : manifest.stores()) {
    CAPSTAN_RETURN_IF_ERROR(CheckRelativePath(entry.file()));
  }
  for (const BackupManifest::Database& entry : manifest.databases()) {
    CAPSTAN_RETURN_IF_ERROR(CheckRelativePath(entry.file()));
  }
  for (const BackupManifest::File& entry : manifest.files()) {
    CAPSTAN_RETURN_IF_ERROR(CheckRelativePath(entry.file()));
    if (entry.path() == kBackupKey || entry.path() == kBackupConfig) continue;
    return status::Error(absl::StatusCode::kInvalidArgument, "NOT_A_BACKUP",
                         absl::StrCat(path, " names the file ", entry.path(),
                                      ", which does not belong into a backup"));
  }
  return manifest;
}

absl::StatusOr<std::string> ReadKeptFile(const std::string& from,
                                         const BackupManifest::File& entry) {
  const std::string path = absl::StrCat(from, "/", entry.file());
  CAPSTAN_ASSIGN_OR_RETURN(std::string bytes, ReadSmallFile(path));
  if (Sha256::Of(bytes) == entry.sha256()) return bytes;
  return status::Error(absl::StatusCode::kInvalidArgument, store::kReasonBackupCorrupt,
                       absl::StrCat(path, " is torn or altered: its SHA-256 is another"));
}

absl::Status VerifyStoreFile(const std::string& from, const BackupManifest::Store& entry) {
  const std::string path = absl::StrCat(from, "/", entry.file());
  const auto header = store::VerifyBackupFile(path);
  if (!header.ok()) return BlameFile(header.status());
  if (header->service() == entry.service() && header->body_sha256() == entry.body_sha256()) {
    return absl::OkStatus();
  }
  return status::Error(absl::StatusCode::kInvalidArgument, store::kReasonBackupCorrupt,
                       absl::StrCat(path, " is not the file that ", kBackupManifest, " speaks of"));
}

}  // namespace capstan::admin
