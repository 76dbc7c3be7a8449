#include "tools/capstan/admin/platform_databases.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <ostream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/digest/fd_digest.h"
#include "libs/safe_path/safe_path.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "libs/store/backup.h"
#include "libs/store/backup_file.h"
#include "libs/time/proto_time.h"
#include "services/telemetry/stored_files.h"
#include "tools/capstan/dev/parts.h"

namespace capstan::admin {
namespace {

using v1::BackupManifest;

constexpr char kService[] = "telemetry";

// Path in the data folder, as the manifest has it.
std::string PathOf(const store::SqliteFileKind& kind) {
  return absl::StrCat(kService, "/", kind.name);
}

std::string FileIn(const std::string& data_dir, const store::SqliteFileKind& kind) {
  return absl::StrCat(dev::PartFolder(data_dir, kService), "/", kind.name);
}

absl::StatusOr<std::string> SumOf(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(errno, "opening", path);
  CAPSTAN_ASSIGN_OR_RETURN(FdDigest digest, DigestFd(fd.get(), path));
  return std::move(digest.sha256);
}

absl::Status Corrupt(const std::string& text) {
  return status::Error(absl::StatusCode::kInvalidArgument, store::kReasonBackupCorrupt, text);
}

absl::StatusOr<store::SqliteFileKind> KindOf(const BackupManifest::Database& entry) {
  for (store::SqliteFileKind& kind : telemetry::StoredFiles()) {
    if (PathOf(kind) == entry.path()) return std::move(kind);
  }
  return status::Error(absl::StatusCode::kFailedPrecondition, store::kReasonForeignBackup,
                       absl::StrCat("the backup holds the file ", entry.path(),
                                    ", which this program does not know"));
}

absl::StatusOr<int64_t> Verify(const std::string& from, const BackupManifest::Database& entry) {
  const std::string path = absl::StrCat(from, "/", entry.file());
  CAPSTAN_ASSIGN_OR_RETURN(const store::SqliteFileKind kind, KindOf(entry));
  CAPSTAN_RETURN_IF_ERROR(CheckRelativePath(entry.file()));
  const absl::StatusOr<std::string> sum = SumOf(path);
  if (absl::IsNotFound(sum.status())) return Corrupt(absl::StrCat(path, " is not there"));
  if (!sum.ok()) return sum.status();
  if (*sum != entry.sha256()) {
    return Corrupt(absl::StrCat(path, " is torn or altered: its SHA-256 is another"));
  }
  return store::CheckSqliteFile(kind, path);
}

}  // namespace

absl::Status BackupDatabases(const std::string& data_dir, const std::string& folder,
                             cli::Invocation& invocation, BackupManifest* manifest) {
  if (mkdir(absl::StrCat(folder, "/databases").c_str(), 0700) != 0) {
    return ErrnoStatus(errno, "making", absl::StrCat(folder, "/databases"));
  }
  for (const store::SqliteFileKind& kind : telemetry::StoredFiles()) {
    const std::string path = FileIn(data_dir, kind);
    const std::string file = absl::StrCat("databases/", kind.name);
    const auto now = invocation.clock->Read().wall;
    const auto records = store::CopySqliteFile(kind, path, absl::StrCat(folder, "/", file));
    if (absl::IsNotFound(records.status())) {
      *invocation.err << "capstan: " << kService << ": there is no " << path
                      << ", so the backup holds no " << kind.records << std::endl;
      continue;
    }
    if (!records.ok()) {
      return status::Annotate(records.status(), absl::StrCat("copying ", path));
    }
    BackupManifest::Database* entry = manifest->add_databases();
    entry->set_path(PathOf(kind));
    entry->set_file(file);
    entry->set_record_count(*records);
    CAPSTAN_ASSIGN_OR_RETURN(*entry->mutable_sha256(), SumOf(absl::StrCat(folder, "/", file)));
    *entry->mutable_create_time() = ToProto(now);
    *invocation.err << "capstan: " << kService << ": " << *records << " " << kind.records
                    << std::endl;
  }
  return absl::OkStatus();
}

absl::Status VerifyDatabases(const std::string& from, const BackupManifest& manifest) {
  for (const BackupManifest::Database& entry : manifest.databases()) {
    CAPSTAN_RETURN_IF_ERROR(Verify(from, entry).status());
  }
  return absl::OkStatus();
}

void CheckDatabases(const std::string& data_dir, DatabaseReport report) {
  for (const store::SqliteFileKind& kind : telemetry::StoredFiles()) {
    const auto records = store::CheckSqliteFile(kind, FileIn(data_dir, kind));
    if (!absl::IsNotFound(records.status())) report(PathOf(kind), records);
  }
}

void CheckCopiedDatabases(const std::string& from, const BackupManifest& manifest,
                          DatabaseReport report) {
  for (const BackupManifest::Database& entry : manifest.databases()) {
    report(entry.path(), Verify(from, entry));
  }
}

absl::StatusOr<DatabaseRestore> DatabaseRestore::Open(const std::string& data_dir,
                                                      const std::string& from,
                                                      const BackupManifest& manifest,
                                                      std::vector<std::string>* filled) {
  DatabaseRestore restore;
  for (store::SqliteFileKind& kind : telemetry::StoredFiles()) {
    One one;
    one.path = FileIn(data_dir, kind);
    CAPSTAN_ASSIGN_OR_RETURN(one.lock, store::FileLock::Acquire(one.path + ".lock"));
    for (const BackupManifest::Database& entry : manifest.databases()) {
      if (entry.path() != PathOf(kind)) continue;
      one.copy = absl::StrCat(from, "/", entry.file());
      one.copied = entry.record_count();
    }
    const auto there = store::CheckSqliteFile(kind, one.path);
    const bool damaged = there.status().code() == absl::StatusCode::kDataLoss;
    const bool unfinished = status::Reason(there.status()) == store::kReasonRestoreUnfinished;
    if (there.ok()) {
      one.kept = *there;
    } else if (damaged && !one.copy.empty()) {
      filled->push_back(PathOf(kind));
    } else if (!damaged && !unfinished && !absl::IsNotFound(there.status())) {
      return there.status();
    }
    one.kind = std::move(kind);
    restore.all_.push_back(std::move(one));
  }
  return restore;
}

absl::Status DatabaseRestore::Run(cli::Invocation& invocation) {
  for (const One& one : all_) {
    std::ostream& err = *invocation.err;
    err << "capstan: " << kService << ": ";
    if (one.kept > 0) {
      err << "kept the " << one.kept << " " << one.kind.records << " that are there";
      if (!one.copy.empty()) {
        err << "; to have the backup's " << one.copied << ", move " << one.path
            << " away and restore again";
      }
    } else if (one.copy.empty()) {
      err << "the backup holds no " << one.kind.records << ", and there are none";
    } else {
      const auto put = store::PutSqliteFileBack(one.kind, one.copy, one.path);
      if (!put.ok()) return put.status();
      err << *put << " " << one.kind.records;
    }
    err << std::endl;
  }
  return absl::OkStatus();
}

}  // namespace capstan::admin
