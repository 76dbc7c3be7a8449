#include "services/telemetry/adapters/stream_retention.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <system_error>
#include <vector>

#include "absl/status/statusor.h"
#include "libs/status/status_macros.h"
#include "services/telemetry/core/stream_rules.h"

namespace capstan::telemetry {
namespace {

namespace fs = ::std::filesystem;

constexpr char kSegmentExtension[] = ".seg";
// Rows of small Streams that are looked at together.
constexpr int kSilentRows = 1000;

struct Folder {
  int64_t bytes = 0;
  absl::Time oldest = absl::InfiniteFuture();
  absl::Time newest = absl::InfinitePast();
  int segments = 0;
};

absl::Time TimeOf(const fs::directory_entry& entry) {
  std::error_code error;
  const auto time = entry.last_write_time(error);
  if (error) return absl::InfiniteFuture();
  return absl::FromChrono(std::chrono::file_clock::to_sys(time));
}

void AddSegment(const fs::directory_entry& entry, Folder* folder) {
  const absl::Time time = TimeOf(entry);
  std::error_code error;
  const auto size = entry.file_size(error);
  if (!error) folder->bytes += static_cast<int64_t>(size);
  folder->oldest = std::min(folder->oldest, time);
  folder->newest = std::max(folder->newest, time);
  ++folder->segments;
}

}  // namespace

void FindOldLogs(const std::string& root, const RetentionRules& rules, FoundRetention found) {
  std::map<std::string, Folder> folders;
  std::error_code error;
  for (auto it = fs::recursive_directory_iterator(root, error);
       !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    if (it->path().extension() != kSegmentExtension) continue;
    AddSegment(*it, &folders[it->path().parent_path().lexically_relative(root).string()]);
  }
  for (const auto& [stream, folder] : folders) {
    if (stream == kAuditStream || !IsStreamName(stream)) continue;
    const bool whole = folder.newest < rules.keep_since && rules.keep_newest.count(stream) == 0;
    const bool part = folder.segments > 1 &&
                      (folder.bytes > rules.keep_bytes || folder.oldest < rules.keep_since);
    if ((whole || part) && !found({stream, whole})) return;
  }
}

absl::Status FindSilentStreams(SmallStreams* small, const RetentionRules& rules,
                               FoundRetention found) {
  for (int64_t after = 0; after >= 0;) {
    CAPSTAN_ASSIGN_OR_RETURN(const std::vector<std::string> silent,
                             small->Silent(rules.keep_since, kSilentRows, &after));
    for (const std::string& stream : silent) {
      if (rules.keep_newest.count(stream) > 0) continue;
      if (!found({stream, /*whole=*/true})) return absl::OkStatus();
    }
  }
  return absl::OkStatus();
}

absl::Time NewestSegment(const std::string& folder) {
  Folder all;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == kSegmentExtension) AddSegment(entry, &all);
  }
  return all.newest;
}

void RemoveLog(const std::string& root, const std::string& folder) {
  std::error_code error;
  fs::remove_all(folder, error);
  for (fs::path above = fs::path(folder).parent_path(); !error && above != root;
       above = above.parent_path()) {
    fs::remove(above, error);
  }
}

}  // namespace capstan::telemetry
