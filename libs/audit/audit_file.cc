#include "libs/audit/audit_file.h"

#include <cerrno>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "libs/crc32c/crc32c.h"
#include "libs/digest/sha256.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"

namespace capstan::audit {
namespace {

constexpr size_t kHeader = 8;
constexpr uint32_t kMaxRecord = 64 << 10;

void AppendLittleEndian(uint32_t value, std::string& out) {
  for (int shift = 0; shift < 32; shift += 8) out.push_back(static_cast<char>(value >> shift));
}

uint32_t LittleEndian(absl::string_view bytes) {
  uint32_t value = 0;
  for (int i = 3; i >= 0; --i) value = (value << 8) | static_cast<unsigned char>(bytes[i]);
  return value;
}

absl::Status Broken(int64_t sequence, absl::string_view why) {
  return status::Error(absl::StatusCode::kDataLoss, "AUDIT_CHAIN_BROKEN",
                       absl::StrCat("the audit chain breaks at record ", sequence, ": ", why),
                       {{"sequence", absl::StrCat(sequence)}});
}

bool IsZero(absl::string_view bytes) {
  return bytes.find_first_not_of('\0') == absl::string_view::npos;
}

// Takes the next frame's payload off `bytes`. OUT_OF_RANGE if what is left is torn: the frame is
// not complete, or it is the last and its sum is wrong, or the end was never filled.
absl::StatusOr<absl::string_view> TakeFrame(absl::string_view& bytes, int64_t sequence) {
  const absl::Status torn = absl::OutOfRangeError("torn");
  if (bytes.size() < kHeader) return torn;
  const uint32_t length = LittleEndian(bytes);
  if (length == 0 && IsZero(bytes)) return torn;
  if (length == 0 || length > kMaxRecord) return Broken(sequence, "impossible length");
  if (bytes.size() - kHeader < length) return torn;
  const absl::string_view payload = bytes.substr(kHeader, length);
  if (Crc32c(payload, Crc32c(bytes.substr(0, 4))) != LittleEndian(bytes.substr(4))) {
    if (bytes.size() == kHeader + length) return torn;
    return Broken(sequence, "wrong checksum");
  }
  bytes.remove_prefix(kHeader + length);
  return payload;
}

}  // namespace

EncodedRecord EncodeRecord(const event::v1::AuditRecord& record) {
  std::string payload;
  {
    google::protobuf::io::StringOutputStream stream(&payload);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    record.SerializeToCodedStream(&coded);
  }
  EncodedRecord encoded;
  AppendLittleEndian(static_cast<uint32_t>(payload.size()), encoded.frame);
  AppendLittleEndian(Crc32c(payload, Crc32c(encoded.frame)), encoded.frame);
  encoded.frame += payload;
  encoded.hash = Sha256::Of(payload);
  return encoded;
}

absl::StatusOr<ChainContent> VerifyChain(
    absl::string_view bytes, absl::string_view chain, const absl::optional<ChainHead>& expected,
    absl::FunctionRef<void(const event::v1::AuditRecord&)> visit) {
  ChainContent content;
  const size_t size = bytes.size();
  bool found = !expected.has_value() || expected->sequence == 0;
  while (!bytes.empty()) {
    const int64_t sequence = content.head.sequence + 1;
    const absl::StatusOr<absl::string_view> payload = TakeFrame(bytes, sequence);
    if (absl::IsOutOfRange(payload.status())) break;
    CAPSTAN_RETURN_IF_ERROR(payload.status());
    event::v1::AuditRecord record;
    if (!record.ParseFromArray(payload->data(), static_cast<int>(payload->size()))) {
      return Broken(sequence, "not a record");
    }
    if (record.chain() != chain) return Broken(sequence, "it is of another chain");
    if (record.sequence() != sequence) {
      return Broken(sequence, absl::StrCat("found record ", record.sequence(), " in its place"));
    }
    if (record.previous_hash() != content.head.hash) {
      return Broken(sequence, "the record before it was changed");
    }
    content.head.sequence = sequence;
    content.head.hash = Sha256::Of(*payload);
    if (expected.has_value() && expected->sequence == sequence) {
      if (expected->hash != content.head.hash) return Broken(sequence, "not the signed record");
      found = true;
    }
    visit(record);
  }
  if (!found) {
    return Broken(content.head.sequence + 1,
                  absl::StrCat("missing, as are those up to ", expected->sequence));
  }
  content.torn_bytes = static_cast<int64_t>(bytes.size());
  content.valid_bytes = static_cast<int64_t>(size) - content.torn_bytes;
  return content;
}

absl::StatusOr<ChainContent> VerifyFile(
    const std::string& path, absl::string_view chain, const absl::optional<ChainHead>& expected,
    absl::FunctionRef<void(const event::v1::AuditRecord&)> visit) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
  const std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  if (in.bad()) return absl::DataLossError(absl::StrCat("cannot read ", path));
  return VerifyChain(bytes, chain, expected, visit);
}

}  // namespace capstan::audit
