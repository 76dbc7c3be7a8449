// What lies in the folder of a platform's backup, and reading it.
#ifndef CAPSTAN_TOOLS_CAPSTAN_ADMIN_BACKUP_FOLDER_H_
#define CAPSTAN_TOOLS_CAPSTAN_ADMIN_BACKUP_FOLDER_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/capstan/admin/backup_manifest.pb.h"

namespace capstan::admin {

inline constexpr int kBackupFormat = 2;
inline constexpr char kBackupManifest[] = "backup.json";
// The files that may be in one, by their paths in the data folder.
inline constexpr char kBackupKey[] = "credentials/key_keeper.key";
inline constexpr char kBackupConfig[] = "config.yaml";

// A key, settings or a manifest: at most 1 MiB; a link is refused.
absl::StatusOr<std::string> ReadSmallFile(const std::string& path);

// With paths that stay in the folder. NOT_A_BACKUP, BACKUP_TOO_NEW, UNSAFE_PATH.
absl::StatusOr<v1::BackupManifest> ReadManifest(const std::string& from);

// BACKUP_CORRUPT if its sum is not that of the manifest.
absl::StatusOr<std::string> ReadKeptFile(const std::string& from,
                                         const v1::BackupManifest::File& entry);

// Reads one store's file whole; that it is the one the manifest speaks of.
absl::Status VerifyStoreFile(const std::string& from, const v1::BackupManifest::Store& entry);

// What a person named is at fault, not Capstan.
absl::Status BlameFile(const absl::Status& status);

}  // namespace capstan::admin

#endif  // CAPSTAN_TOOLS_CAPSTAN_ADMIN_BACKUP_FOLDER_H_
