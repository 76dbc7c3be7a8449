// The file format of an audit chain, and its verification.
//
// A file is a sequence of frames: length (4 bytes, little-endian), CRC-32C of length and payload (4
// bytes), payload: a serialised capstan.event.v1.AuditRecord. The hash of a record is SHA-256 over
// its payload as stored, and the next record holds it. The CRC finds accidents, the chain finds
// intent.
#ifndef CAPSTAN_LIBS_AUDIT_AUDIT_FILE_H_
#define CAPSTAN_LIBS_AUDIT_AUDIT_FILE_H_

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "proto/capstan/event/v1/audit.pb.h"

namespace capstan::audit {

// The last record of a chain: what is signed and kept elsewhere, so that truncation shows.
struct ChainHead {
  // 0 for an empty chain.
  int64_t sequence = 0;
  // 32 bytes; zeros for an empty chain.
  std::string hash = std::string(32, '\0');

  friend bool operator==(const ChainHead&, const ChainHead&) = default;
};

// What a file holds.
struct ChainContent {
  ChainHead head;
  // Length of the whole frames.
  int64_t valid_bytes = 0;
  // Bytes after the last whole frame: an append that a crash cut off, or a cut file.
  int64_t torn_bytes = 0;
};

// A frame for `record`, and the hash of the record.
struct EncodedRecord {
  std::string frame;
  std::string hash;
};
EncodedRecord EncodeRecord(const event::v1::AuditRecord& record);

// Verifies the bytes of a file as the chain `chain` from its beginning, giving each record to
// `visit`. DATA_LOSS with reason AUDIT_CHAIN_BROKEN and the `sequence` of the first bad record if
// one was changed, removed, inserted or reordered. With `expected` also if that head is not in the
// chain: the file was cut, or rewritten. A torn end is no error by itself.
absl::StatusOr<ChainContent> VerifyChain(
    absl::string_view bytes, absl::string_view chain, const absl::optional<ChainHead>& expected,
    absl::FunctionRef<void(const event::v1::AuditRecord&)> visit);

// The same for a file, read in one piece.
absl::StatusOr<ChainContent> VerifyFile(
    const std::string& path, absl::string_view chain, const absl::optional<ChainHead>& expected,
    absl::FunctionRef<void(const event::v1::AuditRecord&)> visit);

}  // namespace capstan::audit

#endif  // CAPSTAN_LIBS_AUDIT_AUDIT_FILE_H_
