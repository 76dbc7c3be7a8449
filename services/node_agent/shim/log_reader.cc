#include "services/node_agent/shim/log_reader.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "libs/safe_path/safe_path.h"
#include "libs/status/status_macros.h"
#include "services/node_agent/shim/log_frame.h"

namespace capstan::node_agent {
namespace {

using capstan::nodeagent::v1::ShimLogRecord;

absl::StatusOr<std::vector<int64_t>> ListSegments(const std::string& folder) {
  DIR* dir = opendir(folder.c_str());
  if (dir == nullptr) return ErrnoStatus(errno, "opendir", folder);
  std::vector<int64_t> segments;
  while (const dirent* entry = readdir(dir)) {
    const int64_t sequence = ParseLogSegmentName(entry->d_name);
    if (sequence >= 0) segments.push_back(sequence);
  }
  closedir(dir);
  std::sort(segments.begin(), segments.end());
  return segments;
}

// At most `limit` bytes from `offset`; "" if the file has gone meanwhile.
absl::StatusOr<std::string> ReadAt(const std::string& path, int64_t offset, int64_t limit) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) {
    if (errno == ENOENT) return std::string();
    return ErrnoStatus(errno, "open", path);
  }
  std::string bytes(static_cast<size_t>(limit), '\0');
  size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t n = pread(fd.get(), bytes.data() + filled, bytes.size() - filled,
                            offset + static_cast<int64_t>(filled));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus(errno, "read", path);
    if (n == 0) break;
    filled += static_cast<size_t>(n);
  }
  bytes.resize(filled);
  return bytes;
}

}  // namespace

absl::StatusOr<LogBatch> ReadLog(const std::string& folder, const LogCursor& cursor,
                                 int64_t max_bytes) {
  // Listed before reading: if a later segment is listed, the one before it will not grow any more.
  CAPSTAN_ASSIGN_OR_RETURN(const std::vector<int64_t> segments, ListSegments(folder));
  // A whole frame must fit, else reading would never go on.
  int64_t budget = std::max<int64_t>(max_bytes, kLogPayloadLimit + kLogFrameHeader);
  LogBatch batch;
  batch.next = cursor;
  for (auto it = std::lower_bound(segments.begin(), segments.end(), cursor.segment);
       it != segments.end() && budget > 0; ++it) {
    if (*it != batch.next.segment) {
      batch.next.segment = *it;
      batch.next.offset = 0;
    }
    const int64_t wanted = std::max<int64_t>(budget, kLogPayloadLimit + kLogFrameHeader);
    CAPSTAN_ASSIGN_OR_RETURN(
        const std::string bytes,
        ReadAt(absl::StrCat(folder, "/", LogSegmentName(*it)), batch.next.offset, wanted));
    absl::string_view rest = bytes;
    ShimLogRecord record;
    size_t size = 0;
    LogFrame frame = LogFrame::kIncomplete;
    while (budget > 0 && (frame = ParseLogFrame(rest, &record, &size)) == LogFrame::kWhole) {
      rest.remove_prefix(size);
      budget -= static_cast<int64_t>(size);
      batch.next.offset += static_cast<int64_t>(size);
      batch.next.next_sequence = record.sequence() + 1;
      batch.records.push_back(std::move(record));
      record.Clear();
    }
    // Cut by the bound, not by the end of the segment: the rest is for the next call.
    const bool cut = static_cast<int64_t>(bytes.size()) == wanted;
    if (cut && frame != LogFrame::kCorrupt) break;
  }
  return batch;
}

absl::Status RemoveShippedSegments(const std::string& folder, const LogCursor& cursor) {
  CAPSTAN_ASSIGN_OR_RETURN(const std::vector<int64_t> segments, ListSegments(folder));
  for (const int64_t segment : segments) {
    if (segment >= cursor.segment) break;
    const std::string path = absl::StrCat(folder, "/", LogSegmentName(segment));
    if (unlink(path.c_str()) != 0 && errno != ENOENT) return ErrnoStatus(errno, "unlink", path);
  }
  return absl::OkStatus();
}

}  // namespace capstan::node_agent
