#include "libs/content/part_journal.h"

#include <fcntl.h>
#include <unistd.h>
#include <xxhash.h>

#include <cerrno>

#include "libs/status/status_macros.h"

namespace capstan::content {
namespace {

constexpr size_t kRecordSize = 16;
// 10 million parts of 8 MiB are 80 TB.
constexpr size_t kMaxJournal = kRecordSize * 10'000'000;

void AppendLittleEndian(std::string& out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

uint64_t ReadLittleEndian(absl::string_view in) {
  uint64_t value = 0;
  for (size_t i = 0; i < in.size(); ++i) {
    value |= static_cast<uint64_t>(static_cast<unsigned char>(in[i])) << (8 * i);
  }
  return value;
}

std::string Encode(PartJournal::PartKey part) {
  std::string record;
  AppendLittleEndian(record, static_cast<uint32_t>(part.first), 4);
  AppendLittleEndian(record, static_cast<uint32_t>(part.second), 4);
  AppendLittleEndian(record, ::XXH64(record.data(), record.size(), 0), 8);
  return record;
}

}  // namespace

PartJournal::PartJournal(UniqueFd fd, std::set<PartKey> found, std::string path)
    : fd_(std::move(fd)), found_(std::move(found)), path_(std::move(path)) {}

PartJournal::PartJournal(PartJournal&& other) noexcept
    : fd_(std::move(other.fd_)), found_(other.found_), path_(other.path_) {}

absl::StatusOr<PartJournal> PartJournal::Open(const SafeRoot& root, const std::string& path) {
  CAPSTAN_ASSIGN_OR_RETURN(UniqueFd fd, root.OpenFile(path, O_RDWR | O_CREAT | O_APPEND, 0600));
  CAPSTAN_ASSIGN_OR_RETURN(const std::string bytes, ReadAll(fd.get(), kMaxJournal, path));
  std::set<PartKey> found;
  size_t good = 0;
  for (; good + kRecordSize <= bytes.size(); good += kRecordSize) {
    const absl::string_view record(bytes.data() + good, kRecordSize);
    if (ReadLittleEndian(record.substr(8)) != ::XXH64(record.data(), 8, 0)) break;
    found.emplace(static_cast<int32_t>(ReadLittleEndian(record.substr(0, 4))),
                  static_cast<int32_t>(ReadLittleEndian(record.substr(4, 4))));
  }
  if (good != bytes.size() && ::ftruncate(fd.get(), static_cast<off_t>(good)) != 0) {
    return ErrnoStatus(errno, "truncate", path);
  }
  return PartJournal(std::move(fd), std::move(found), path);
}

absl::Status PartJournal::Append(const std::vector<PartKey>& parts) {
  std::string records;
  for (const PartKey& part : parts) records += Encode(part);
  absl::MutexLock lock(&mutex_);
  CAPSTAN_RETURN_IF_ERROR(WriteAll(fd_.get(), records, path_));
  if (::fdatasync(fd_.get()) != 0) return ErrnoStatus(errno, "fdatasync", path_);
  return absl::OkStatus();
}

}  // namespace capstan::content
