#ifndef CAPSTAN_LIBS_CONTENT_PART_JOURNAL_H_
#define CAPSTAN_LIBS_CONTENT_PART_JOURNAL_H_

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "libs/safe_path/safe_path.h"

namespace capstan::content {

// Which parts of a load are on disk. Records of 16 bytes: file index, part index (little-endian u32
// each) and the XXH64 of those 8 bytes; a torn or foreign tail is cut off when the journal is
// opened. Thread-safe.
class PartJournal {
 public:
  using PartKey = std::pair<int32_t, int32_t>;

  // `root` must outlive the journal.
  static absl::StatusOr<PartJournal> Open(const SafeRoot& root, const std::string& path);

  PartJournal(PartJournal&& other) noexcept;

  // Parts found when it was opened.
  const std::set<PartKey>& found() const { return found_; }
  // Durable when it returns, by one sync. The parts' bytes must be durable before.
  absl::Status Append(const std::vector<PartKey>& parts);
  absl::Status Append(PartKey part) { return Append(std::vector<PartKey>{part}); }

 private:
  PartJournal(UniqueFd fd, std::set<PartKey> found, std::string path);

  absl::Mutex mutex_;
  UniqueFd fd_ ABSL_GUARDED_BY(mutex_);
  const std::set<PartKey> found_;
  const std::string path_;
};

}  // namespace capstan::content

#endif  // CAPSTAN_LIBS_CONTENT_PART_JOURNAL_H_
