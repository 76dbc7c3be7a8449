#include "libs/content/chunk_digests.h"

#include "absl/strings/str_cat.h"
#include "libs/digest/sha256.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"

namespace capstan::content {

absl::StatusOr<std::string> ChunkDigests::Of(const std::string& manifest_digest,
                                             ContentReader& reader, int64_t chunk) {
  if (chunk < 0 || chunk >= ChunkCount(reader.total_bytes())) {
    return status::Error(absl::StatusCode::kOutOfRange, "RANGE_BEYOND_CONTENT",
                         absl::StrCat("there is no chunk ", chunk));
  }
  absl::optional<std::string> kept = Find(manifest_digest, chunk);
  if (kept.has_value()) return *std::move(kept);
  CAPSTAN_ASSIGN_OR_RETURN(const std::string bytes,
                           reader.Read(chunk * kChunkBytes, static_cast<size_t>(ChunkSize(
                                                                chunk, reader.total_bytes()))));
  std::string digest = Sha256::Of(bytes);
  Keep(manifest_digest, chunk, digest);
  return digest;
}

absl::optional<std::string> ChunkDigests::Find(const std::string& manifest_digest, int64_t chunk) {
  absl::MutexLock lock(&mutex_);
  const auto content = contents_.find(manifest_digest);
  if (content == contents_.end()) return absl::nullopt;
  uses_.splice(uses_.begin(), uses_, content->second.use);
  const auto found = content->second.digests.find(chunk);
  if (found == content->second.digests.end()) return absl::nullopt;
  return found->second;
}

void ChunkDigests::Keep(const std::string& manifest_digest, int64_t chunk,
                        const std::string& digest) {
  absl::MutexLock lock(&mutex_);
  const auto [content, added] = contents_.try_emplace(manifest_digest);
  if (added) content->second.use = uses_.insert(uses_.begin(), manifest_digest);
  if (content->second.digests.emplace(chunk, digest).second) ++chunks_;
  while (chunks_ > max_chunks_ && !uses_.empty()) {
    const auto last = contents_.find(uses_.back());
    chunks_ -= last->second.digests.size();
    contents_.erase(last);
    uses_.pop_back();
  }
}

}  // namespace capstan::content
