#include "libs/store/backup_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/segment_log/frame.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "libs/store/store.h"

namespace capstan::store {
namespace {

using backup::v1::BackupHeader;
using backup::v1::BackupPiece;
using backup::v1::BackupRecord;

constexpr absl::string_view kMagic("CAPSTAN BACKUP\n\0", 16);
constexpr size_t kSummedBytes = kBackupHeaderBytes - Sha256::kSize;
constexpr size_t kLengthAt = 16;
constexpr size_t kProtoAt = 20;
// From which a frame is written. A value may have 1 MiB, a frame 4 MiB.
constexpr size_t kPieceBytes = 256 << 10;

uint32_t Load32(const char* bytes) {
  uint32_t number = 0;
  for (int i = 3; i >= 0; --i) number = number << 8 | static_cast<uint8_t>(bytes[i]);
  return number;
}

void Append32(uint32_t number, std::string* out) {
  for (int i = 0; i < 4; ++i) out->push_back(static_cast<char>(number >> (8 * i)));
}

absl::Status Corrupt(absl::string_view what) {
  return status::Error(absl::StatusCode::kDataLoss, kReasonBackupCorrupt,
                       absl::StrCat("the backup is torn or altered: ", what));
}

std::string PartialOf(const std::string& path) { return path + ".partial"; }

absl::StatusOr<std::string> HeaderBlock(const BackupHeader& header) {
  const std::string text = header.SerializeAsString();
  if (kProtoAt + text.size() > kSummedBytes) {
    return absl::InternalError("the backup's header is too long");
  }
  std::string block(kMagic);
  Append32(static_cast<uint32_t>(text.size()), &block);
  block += text;
  block.resize(kSummedBytes);
  return block + Sha256::Of(block);
}

absl::StatusOr<BackupHeader> ParseHeaderBlock(absl::string_view block) {
  if (!absl::StartsWith(block, kMagic)) {
    return status::Error(absl::StatusCode::kDataLoss, kReasonBackupCorrupt,
                         "the file is no backup of a Capstan store");
  }
  if (block.size() != kBackupHeaderBytes) return Corrupt("it ends within its header");
  if (Sha256::Of(block.substr(0, kSummedBytes)) != block.substr(kSummedBytes)) {
    return Corrupt("its header's SHA-256 is another");
  }
  const uint32_t length = Load32(block.data() + kLengthAt);
  BackupHeader header;
  if (length > kSummedBytes - kProtoAt ||
      !header.ParseFromArray(block.data() + kProtoAt, static_cast<int>(length))) {
    return Corrupt("its header cannot be parsed");
  }
  if (header.format() > kBackupFormat) {
    return status::Error(
        absl::StatusCode::kFailedPrecondition, kReasonBackupTooNew,
        absl::StrCat("the backup has format ", header.format(), "; this program knows up to ",
                     kBackupFormat, ": use the newer one"),
        {{"format", absl::StrCat(header.format())}, {"known", absl::StrCat(kBackupFormat)}});
  }
  if (header.format() < 1 || header.service().empty() || header.schema() < 1 ||
      header.body_bytes() < 0 || header.record_count() < 0) {
    return Corrupt("its header makes no sense");
  }
  return header;
}

// Reads frames one at a time and hands their records on.
class BodyReader {
 public:
  BodyReader(const BackupHeader& header, ByteSource source, TakeRecord on_record)
      : header_(header),
        prefix_(BackupKeyPrefix(header)),
        source_(source),
        on_record_(on_record),
        left_(header.body_bytes()) {}

  absl::Status Read() {
    while (left_ > 0) CAPSTAN_RETURN_IF_ERROR(ReadFrame());
    char one;
    CAPSTAN_ASSIGN_OR_RETURN(const size_t behind, source_(&one, 1));
    if (behind != 0) return Corrupt("something follows its end");
    if (records_ != header_.record_count()) {
      return Corrupt(absl::StrCat("it holds ", records_, " records, its header says ",
                                  header_.record_count()));
    }
    if (sum_.Finish() != header_.body_sha256()) return Corrupt("its body's SHA-256 is another");
    return absl::OkStatus();
  }

 private:
  // `size` more bytes at the end of `frame_`.
  absl::Status Get(int64_t size) {
    if (size > left_) return Corrupt(absl::StrCat("a frame is cut off, ", left_, " bytes remain"));
    const size_t at = frame_.size();
    frame_.resize(at + size);
    CAPSTAN_ASSIGN_OR_RETURN(const size_t got, source_(&frame_[at], size));
    if (got != static_cast<size_t>(size)) {
      return Corrupt(absl::StrCat("it ends ", left_ - static_cast<int64_t>(got), " bytes early"));
    }
    left_ -= size;
    return absl::OkStatus();
  }

  absl::Status ReadFrame() {
    frame_.clear();
    CAPSTAN_RETURN_IF_ERROR(Get(segment_log::kFramePrefix));
    const uint32_t length = Load32(frame_.data());
    if (length == 0 || length > segment_log::kMaxFramePayload + 1) {
      return Corrupt("a frame has an impossible length");
    }
    CAPSTAN_RETURN_IF_ERROR(Get(length));
    sum_.Update(frame_);
    const segment_log::Frame frame = segment_log::ParseFrame(frame_);
    if (frame.outcome != segment_log::Frame::Outcome::kFrame ||
        frame.kind != segment_log::FrameKind::kRecord) {
      return Corrupt("a frame's CRC is another");
    }
    BackupPiece piece;
    if (!piece.ParseFromArray(frame.payload.data(), static_cast<int>(frame.payload.size())) ||
        piece.records().empty()) {
      return Corrupt("a frame holds no records");
    }
    for (const BackupRecord& record : piece.records()) CAPSTAN_RETURN_IF_ERROR(Take(record));
    return absl::OkStatus();
  }

  absl::Status Take(const BackupRecord& record) {
    const std::string shown = absl::CHexEscape(record.key());
    if (!absl::StartsWith(record.key(), prefix_) || record.key().size() > kMaxKeyBytes ||
        record.value().size() > kMaxValueBytes) {
      return Corrupt(absl::StrCat("the record '", shown, "' does not belong in it"));
    }
    if (record.key() <= last_key_) {
      return Corrupt(absl::StrCat("the record '", shown, "' is out of order"));
    }
    last_key_ = record.key();
    ++records_;
    return on_record_(record);
  }

  const BackupHeader& header_;
  const std::string prefix_;
  const ByteSource source_;
  const TakeRecord on_record_;
  int64_t left_;
  int64_t records_ = 0;
  std::string last_key_;
  std::string frame_;
  Sha256 sum_;
};

}  // namespace

std::string BackupKeyPrefix(const BackupHeader& header) {
  return absl::StrCat("/capstan/", header.service(), "/v", header.schema(), "/");
}

BackupFileWriter::BackupFileWriter(std::string path, UniqueFd fd, BackupHeader header)
    : path_(std::move(path)), fd_(std::move(fd)), header_(std::move(header)) {}

BackupFileWriter::~BackupFileWriter() {
  if (!finished_) unlink(PartialOf(path_).c_str());
}

absl::StatusOr<std::unique_ptr<BackupFileWriter>> BackupFileWriter::Create(const std::string& path,
                                                                           BackupHeader header) {
  struct ::stat there;
  if (lstat(path.c_str(), &there) == 0) {
    return status::Error(absl::StatusCode::kAlreadyExists, "BACKUP_EXISTS",
                         absl::StrCat(path, " exists: name another file"), {{"path", path}});
  }
  const std::string partial = PartialOf(path);
  if (unlink(partial.c_str()) != 0 && errno != ENOENT) {
    return ErrnoStatus(errno, "removing", partial);
  }
  UniqueFd fd(open(partial.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd.valid()) return ErrnoStatus(errno, "making", partial);
  header.set_format(kBackupFormat);
  header.clear_record_count();
  header.clear_body_bytes();
  header.clear_body_sha256();
  auto writer = std::unique_ptr<BackupFileWriter>(
      new BackupFileWriter(path, std::move(fd), std::move(header)));
  // Zeros are no header: a file without its end is none.
  CAPSTAN_RETURN_IF_ERROR(
      WriteAll(writer->fd_.get(), std::string(kBackupHeaderBytes, '\0'), partial));
  return writer;
}

absl::Status BackupFileWriter::Add(absl::string_view key, absl::string_view value) {
  if (key <= last_key_) {
    return absl::InternalError(absl::StrCat("backup out of order at ", absl::CHexEscape(key)));
  }
  last_key_ = std::string(key);
  BackupRecord* record = piece_.add_records();
  record->set_key(std::string(key));
  record->set_value(std::string(value));
  piece_bytes_ += key.size() + value.size();
  header_.set_record_count(header_.record_count() + 1);
  return piece_bytes_ < kPieceBytes ? absl::OkStatus() : WritePiece();
}

absl::Status BackupFileWriter::WritePiece() {
  if (piece_.records().empty()) return absl::OkStatus();
  std::string frame;
  segment_log::AppendFrame(segment_log::FrameKind::kRecord, piece_.SerializeAsString(), &frame);
  piece_.Clear();
  piece_bytes_ = 0;
  sum_.Update(frame);
  header_.set_body_bytes(header_.body_bytes() + static_cast<int64_t>(frame.size()));
  return WriteAll(fd_.get(), frame, PartialOf(path_));
}

absl::StatusOr<BackupHeader> BackupFileWriter::Finish() {
  const std::string partial = PartialOf(path_);
  CAPSTAN_RETURN_IF_ERROR(WritePiece());
  header_.set_body_sha256(sum_.Finish());
  CAPSTAN_ASSIGN_OR_RETURN(const std::string block, HeaderBlock(header_));
  if (lseek(fd_.get(), 0, SEEK_SET) != 0) return ErrnoStatus(errno, "seeking in", partial);
  CAPSTAN_RETURN_IF_ERROR(WriteAll(fd_.get(), block, partial));
  if (fsync(fd_.get()) != 0) return ErrnoStatus(errno, "fsync of", partial);
  // What came to lie at `path` meanwhile is not replaced.
  if (renameat2(AT_FDCWD, partial.c_str(), AT_FDCWD, path_.c_str(), RENAME_NOREPLACE) != 0) {
    return ErrnoStatus(errno, "naming", path_);
  }
  finished_ = true;
  const size_t slash = path_.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path_.substr(0, slash + 1);
  const UniqueFd folder_fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder_fd.valid() || fsync(folder_fd.get()) != 0) {
    return ErrnoStatus(errno, "fsync of", folder);
  }
  return header_;
}

absl::StatusOr<BackupHeader> ReadBackup(ByteSource source, TakeHeader on_header,
                                        TakeRecord on_record) {
  std::string block(kBackupHeaderBytes, '\0');
  CAPSTAN_ASSIGN_OR_RETURN(const size_t got, source(block.data(), block.size()));
  CAPSTAN_ASSIGN_OR_RETURN(const BackupHeader header,
                           ParseHeaderBlock(absl::string_view(block).substr(0, got)));
  CAPSTAN_RETURN_IF_ERROR(on_header(header));
  CAPSTAN_RETURN_IF_ERROR(BodyReader(header, source, on_record).Read());
  return header;
}

absl::StatusOr<BackupHeader> ReadBackupFile(const std::string& path, TakeHeader on_header,
                                            TakeRecord on_record) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(errno, "opening", path);
  const auto source = [&](char* to, size_t size) -> absl::StatusOr<size_t> {
    size_t got = 0;
    while (got < size) {
      const ssize_t n = read(fd.get(), to + got, size - got);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return ErrnoStatus(errno, "reading", path);
      if (n == 0) break;
      got += n;
    }
    return got;
  };
  auto header = ReadBackup(source, on_header, on_record);
  if (!header.ok()) return status::Annotate(header.status(), path);
  return header;
}

absl::StatusOr<BackupHeader> VerifyBackupFile(const std::string& path) {
  return ReadBackupFile(
      path, [](const BackupHeader&) { return absl::OkStatus(); },
      [](const BackupRecord&) { return absl::OkStatus(); });
}

}  // namespace capstan::store
