// Any bytes: the reader neither crashes nor takes more than it should, and what it accepts is a
// backup whose records, written again, give the same sums.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "libs/digest/sha256.h"
#include "libs/store/backup_file.h"

namespace {

using capstan::store::BackupKeyPrefix;
using capstan::store::ReadBackup;
using capstan::store::backup::v1::BackupHeader;
using capstan::store::backup::v1::BackupRecord;

absl::StatusOr<BackupHeader> Read(absl::string_view bytes) {
  std::string prefix;
  std::string last;
  int64_t records = 0;
  const auto source = [&](char* to, size_t size) -> absl::StatusOr<size_t> {
    const size_t n = std::min(size, bytes.size());
    if (n > 0) std::memcpy(to, bytes.data(), n);
    bytes.remove_prefix(n);
    return n;
  };
  const auto on_header = [&](const BackupHeader& header) {
    prefix = BackupKeyPrefix(header);
    return absl::OkStatus();
  };
  const auto on_record = [&](const BackupRecord& record) {
    if (!absl::StartsWith(record.key(), prefix) || record.key() <= last) std::abort();
    last = record.key();
    ++records;
    return absl::OkStatus();
  };
  const auto header = ReadBackup(source, on_header, on_record);
  if (header.ok() && (header->record_count() != records || !bytes.empty())) std::abort();
  return header;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  (void)Read(bytes);
  // With the header's sum put right, so that the search gets beyond it.
  constexpr size_t kSummed = capstan::store::kBackupHeaderBytes - capstan::Sha256::kSize;
  if (size >= capstan::store::kBackupHeaderBytes) {
    bytes.replace(kSummed, capstan::Sha256::kSize, capstan::Sha256::Of(bytes.substr(0, kSummed)));
    (void)Read(bytes);
  }
  return 0;
}
