#include "services/node_agent/held_copies.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libs/content/publish.h"
#include "libs/safe_path/safe_path.h"
#include "libs/status/status_macros.h"
#include "proto/capstan/dataloader/v1/dataset.pb.h"
#include "services/node_agent/adapters/content_fetch.h"

namespace capstan::node_agent {

void HeldCopies::Growing(const std::string& key, int64_t total_bytes) {
  absl::MutexLock lock(&mutex_);
  entries_[key] = {{key, 0, total_bytes, false}, ++changes_};
}

void HeldCopies::Advanced(const std::string& key, int64_t have_bytes) {
  absl::MutexLock lock(&mutex_);
  const auto found = entries_.find(key);
  if (found != entries_.end() && !found->second.copy.whole) {
    found->second.copy.have_bytes = have_bytes;
  }
}

void HeldCopies::Whole(const std::string& key, int64_t total_bytes) {
  absl::MutexLock lock(&mutex_);
  entries_[key] = {{key, total_bytes, total_bytes, true}, ++changes_};
}

void HeldCopies::Gone(const std::string& key) {
  absl::MutexLock lock(&mutex_);
  if (entries_.erase(key) != 0) ++changes_;
}

absl::optional<HeldCopies::Copy> HeldCopies::Find(const std::string& manifest_digest) const {
  const absl::string_view hex = absl::StripPrefix(manifest_digest, "sha256:");
  absl::optional<Copy> best;
  absl::MutexLock lock(&mutex_);
  for (const char* collection : {"versions", "bundles", "outputs"}) {
    const auto found = entries_.find(absl::StrCat(collection, "/", hex));
    if (found == entries_.end()) continue;
    if (!best.has_value() || found->second.copy.whole) best = found->second.copy;
  }
  return best;
}

absl::StatusOr<content::ContentReader> HeldCopies::Open(const Copy& copy) const {
  CAPSTAN_ASSIGN_OR_RETURN(const SafeRoot cache, SafeRoot::Open(folder_));
  const std::string staging = StagingFolderOf(copy.key);
  CAPSTAN_ASSIGN_OR_RETURN(SafeRoot files,
                           cache.Descend(copy.whole ? copy.key : staging + "/files"));
  CAPSTAN_ASSIGN_OR_RETURN(
      capstan::dataloader::v1::Manifest manifest,
      content::ReadManifest(cache, copy.whole ? copy.key : staging + "/content"));
  return content::ContentReader(std::move(files), std::move(manifest));
}

std::vector<HeldCopies::Copy> HeldCopies::List(size_t limit) const {
  std::vector<Entry> entries;
  {
    absl::MutexLock lock(&mutex_);
    entries.reserve(entries_.size());
    for (const auto& [key, entry] : entries_) entries.push_back(entry);
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::make_tuple(a.copy.whole, b.change) < std::make_tuple(b.copy.whole, a.change);
  });
  std::vector<Copy> copies;
  for (const Entry& entry : entries) {
    if (copies.size() == limit) break;
    copies.push_back(entry.copy);
  }
  return copies;
}

uint64_t HeldCopies::changes() const {
  absl::MutexLock lock(&mutex_);
  return changes_;
}

}  // namespace capstan::node_agent
