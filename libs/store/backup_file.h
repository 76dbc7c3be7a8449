// The file that a store's backup is: written in one go, whole or absent; read with every byte
// verified. Independent of the store's adapter.
//
//   header block   4,096 bytes: the 16 bytes "CAPSTAN BACKUP\n\0", the header's length (u32,
//                  little-endian), the header (backup.proto), zeros, and last the SHA-256 of the
//                  4,064 bytes before
//   frames         of libs/segment_log/frame.h, kind kRecord, each a BackupPiece
//
// The sums find damage and cut-off ends, not forgery: who may write the file may also make sums.
#ifndef CAPSTAN_LIBS_STORE_BACKUP_FILE_H_
#define CAPSTAN_LIBS_STORE_BACKUP_FILE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libs/digest/sha256.h"
#include "libs/safe_path/safe_path.h"
#include "libs/store/backup.pb.h"

namespace capstan::store {

inline constexpr int kBackupFormat = 1;
inline constexpr size_t kBackupHeaderBytes = 4096;

// DATA_LOSS: the file is torn or altered. FAILED_PRECONDITION: it is of a newer format.
inline constexpr char kReasonBackupCorrupt[] = "BACKUP_CORRUPT";
inline constexpr char kReasonBackupTooNew[] = "BACKUP_TOO_NEW";

// `/capstan/<service>/v<schema>/`.
std::string BackupKeyPrefix(const backup::v1::BackupHeader& header);

// Writes one file. Blocking; for one thread. What is not finished is removed again.
class BackupFileWriter {
 public:
  // Writes beside `path` (`<path>.partial`, 0600, replacing what a killed writer left). Of `header`
  // counts and sums are filled in at the end. ALREADY_EXISTS if there is something at `path`.
  static absl::StatusOr<std::unique_ptr<BackupFileWriter>> Create(const std::string& path,
                                                                  backup::v1::BackupHeader header);
  ~BackupFileWriter();
  BackupFileWriter(const BackupFileWriter&) = delete;
  BackupFileWriter& operator=(const BackupFileWriter&) = delete;

  // Keys must rise. Holds at most some 256 KiB and the record.
  absl::Status Add(absl::string_view key, absl::string_view value);
  // Writes the header, forces everything to disk, and only then gives the file its name.
  absl::StatusOr<backup::v1::BackupHeader> Finish();

 private:
  BackupFileWriter(std::string path, UniqueFd fd, backup::v1::BackupHeader header);
  absl::Status WritePiece();

  const std::string path_;
  UniqueFd fd_;
  backup::v1::BackupHeader header_;
  backup::v1::BackupPiece piece_;
  size_t piece_bytes_ = 0;
  std::string last_key_;
  Sha256 sum_;
  bool finished_ = false;
};

// Up to `size` bytes into `to`; fewer only at the end.
using ByteSource = absl::FunctionRef<absl::StatusOr<size_t>(char* to, size_t size)>;
using TakeHeader = absl::FunctionRef<absl::Status(const backup::v1::BackupHeader&)>;
using TakeRecord = absl::FunctionRef<absl::Status(const backup::v1::BackupRecord&)>;

// Reads a whole file, which may be any bytes at all, holding one frame at a time. `on_header` and
// `on_record` may refuse with a status, which ends the reading. What `on_record` got counts only if
// the result is OK: sums are compared at the end. DATA_LOSS with BACKUP_CORRUPT says what is wrong
// where; FAILED_PRECONDITION with BACKUP_TOO_NEW.
absl::StatusOr<backup::v1::BackupHeader> ReadBackup(ByteSource source, TakeHeader on_header,
                                                    TakeRecord on_record);

// The same of the file at `path`, which errors name.
absl::StatusOr<backup::v1::BackupHeader> ReadBackupFile(const std::string& path,
                                                        TakeHeader on_header, TakeRecord on_record);

// Reads all of it for its sums alone.
absl::StatusOr<backup::v1::BackupHeader> VerifyBackupFile(const std::string& path);

}  // namespace capstan::store

#endif  // CAPSTAN_LIBS_STORE_BACKUP_FILE_H_
