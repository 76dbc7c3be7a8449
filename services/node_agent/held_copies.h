#ifndef CAPSTAN_SERVICES_NODE_AGENT_HELD_COPIES_H_
#define CAPSTAN_SERVICES_NODE_AGENT_HELD_COPIES_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/optional.h"
#include "libs/content/content_reader.h"
#include "services/node_agent/ports/cache_watcher.h"

namespace capstan::node_agent {

// What the Node's cache holds, for those who give it to others and say so. Thread-safe.
class HeldCopies final : public CacheWatcher {
 public:
  struct Copy {
    std::string key;
    int64_t have_bytes = 0;
    int64_t total_bytes = 0;
    bool whole = false;
  };

  // `folder` is the cache's, absolute.
  explicit HeldCopies(std::string folder) : folder_(std::move(folder)) {}

  void Growing(const std::string& key, int64_t total_bytes) override;
  void Advanced(const std::string& key, int64_t have_bytes) override;
  void Whole(const std::string& key, int64_t total_bytes) override;
  void Gone(const std::string& key) override;

  // Content by the digest of its manifest, `sha256:…`; a whole copy if there is one.
  absl::optional<Copy> Find(const std::string& manifest_digest) const;
  // Opens what Find gave. Blocks for the disk. What is read up to its `have_bytes` is right, also
  // while more comes and after the copy has become whole. NOT_FOUND if it has left meanwhile.
  absl::StatusOr<content::ContentReader> Open(const Copy& copy) const;
  // At most `limit`: those on their way, then the others, what came last first.
  std::vector<Copy> List(size_t limit) const;
  // Differs when a copy came, left or began to come.
  uint64_t changes() const;

 private:
  struct Entry {
    Copy copy;
    uint64_t change = 0;
  };

  const std::string folder_;
  mutable absl::Mutex mutex_;
  std::map<std::string, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  uint64_t changes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_HELD_COPIES_H_
