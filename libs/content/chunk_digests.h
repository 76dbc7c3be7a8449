#ifndef CAPSTAN_LIBS_CONTENT_CHUNK_DIGESTS_H_
#define CAPSTAN_LIBS_CONTENT_CHUNK_DIGESTS_H_

#include <algorithm>
#include <cstdint>
#include <list>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/optional.h"
#include "libs/content/content_reader.h"

namespace capstan::content {

// Content (see ContentReader) is cut into chunks of this size, so that what comes from somebody who
// is not to be believed can be checked piece by piece; the last one is what is left.
inline constexpr int64_t kChunkBytes = int64_t{1} << 20;

inline int64_t ChunkCount(int64_t total_bytes) {
  return (total_bytes + kChunkBytes - 1) / kChunkBytes;
}
inline int64_t ChunkSize(int64_t chunk, int64_t total_bytes) {
  return std::min(kChunkBytes, total_bytes - chunk * kChunkBytes);
}

// SHA-256 of chunks, read once and kept. What is asked for least leaves, by contents, beyond the
// bound. Thread-safe.
class ChunkDigests {
 public:
  // 32 bytes a chunk and some more.
  explicit ChunkDigests(size_t max_chunks = 1 << 20) : max_chunks_(max_chunks) {}

  // The digest of one chunk of the content that `reader` reads, whose manifest's digest is
  // `manifest_digest`. Blocks for the disk if it is not kept. OUT_OF_RANGE if there is no such
  // chunk; errors of the reader.
  absl::StatusOr<std::string> Of(const std::string& manifest_digest, ContentReader& reader,
                                 int64_t chunk);

 private:
  struct Content {
    std::unordered_map<int64_t, std::string> digests;
    std::list<std::string>::iterator use;
  };

  absl::optional<std::string> Find(const std::string& manifest_digest, int64_t chunk);
  void Keep(const std::string& manifest_digest, int64_t chunk, const std::string& digest);

  const size_t max_chunks_;
  absl::Mutex mutex_;
  std::map<std::string, Content> contents_ ABSL_GUARDED_BY(mutex_);
  // By use, the latest first.
  std::list<std::string> uses_ ABSL_GUARDED_BY(mutex_);
  size_t chunks_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace capstan::content

#endif  // CAPSTAN_LIBS_CONTENT_CHUNK_DIGESTS_H_
