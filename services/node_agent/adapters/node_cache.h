#ifndef CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_NODE_CACHE_H_
#define CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_NODE_CACHE_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "libs/log/log.h"
#include "libs/metrics/registry.h"
#include "libs/random/random.h"
#include "libs/safe_path/safe_path.h"
#include "libs/strand/strand.h"
#include "libs/strand/thread_strand.h"
#include "services/node_agent/adapters/content_fetch.h"
#include "services/node_agent/adapters/work_threads.h"
#include "services/node_agent/core/cache_core.h"
#include "services/node_agent/ports/cache_watcher.h"
#include "services/node_agent/ports/loader_content.h"

namespace capstan::node_agent {

struct NodeCacheOptions {
  // Absolute; made if absent, traversable for everyone. One agent's own.
  std::string folder;
  // What versions, Bundles and checkpoints may take, with those on their way; 0 means no bound but
  // the disk's.
  int64_t limit_bytes = 0;
  // Contents that are fetched at once.
  int threads = 2;
  // How long Bring waits before it says how far the content is.
  absl::Duration patience = absl::Seconds(5);
  FetchOptions fetch;
};

// What is to be there.
struct WantedContent {
  // `versions`, `bundles` or `outputs`.
  std::string collection;
  // What it is, and for whom: its holder.
  capstan::dataloader::v1::ContentRef content;
  int64_t total_bytes = 0;
};

// A Site of this Node's own, in a folder:
//   {versions,bundles,outputs}/<digest>/, <digest>.manifest   whole content, read-only
//   outgoing/<job uid>/<generation>/                          where Tasks write their Outputs
//   staging/<collection>-<digest>/                            what is on its way (content_fetch.h)
//   staging/{upload,leaving}-<id>/                            what is sent, and what is removed
//   cache.binpb                                               CacheRecord: who holds what
// Content is fetched once for all who want it, goes on where it was after a crash of either side,
// and is whole or absent. What is held stays; the rest leaves, least recently used first, when
// there is no room. A hold is stored before it is answered, and lasts until it is released, also
// over restarts. Methods are called on the strand and do not block; callbacks run there.
class NodeCache {
 public:
  template <typename T>
  using Callback = absl::AnyInvocable<void(absl::StatusOr<T>)>;

  // All pointers must outlive the cache; `registry` and `watcher` may be null. Blocks for the disk.
  // Content that a crash has left behind is removed, or taken up when it is wanted. The watcher is
  // told of what is there before this returns.
  static absl::StatusOr<std::unique_ptr<NodeCache>> Open(const NodeCacheOptions& options,
                                                         LoaderContent* loader, Strand* strand,
                                                         Random random, const log::Logger* logger,
                                                         metrics::Registry* registry,
                                                         CacheWatcher* watcher = nullptr);
  ~NodeCache();

  // Gives the content's absolute folder once it is there, held for its holder. UNAVAILABLE
  // (DATA_ON_ITS_WAY), with how far it is, if that takes long: ask again. Other errors are
  // SITE_FULL, CONTENT_TOO_LARGE and those of FetchContent.
  void Bring(const WantedContent& wanted, Callback<std::string> done);
  // Releases what the holder holds, and removes its folder below `outgoing/`.
  void Release(const std::string& holder, absl::AnyInvocable<void(absl::Status)> done);
  // Makes `outgoing/<holder>` and removes those of other generations of its Job; gives its absolute
  // path.
  void OpenOutgoing(const std::string& holder, Callback<std::string> done);
  // Copies a folder below `outgoing/`, given by its absolute path, so that the Task can't change it
  // any more; sends the copy, and commits it as `commit` says. Gives the manifest's digest.
  void SendOutput(const capstan::dataloader::v1::CommitOutputRequest& commit,
                  const std::string& directory, Callback<std::string> done);

 private:
  // One fetch under way, and who waits for it.
  struct Fetching {
    std::string what;
    std::shared_ptr<std::atomic<int64_t>> done_bytes = std::make_shared<std::atomic<int64_t>>(0);
    int64_t total_bytes = 0;
    absl::Time since;
    std::map<uint64_t, Callback<std::string>> waiters;
  };
  struct Metrics {
    absl::optional<metrics::Counter> sent_bytes;
    absl::optional<metrics::Counter> evicted;
    absl::optional<metrics::Counter> refused;
    absl::optional<metrics::Gauge> bytes;
  };

  NodeCache(const NodeCacheOptions& options, SafeRoot root, LoaderContent* loader, Strand* strand,
            Random random, const log::Logger* logger, metrics::Registry* registry,
            CacheWatcher* watcher);

  absl::Status Load();
  std::string Path(const std::string& key) const;
  // Stores the record, removes `leaving`, then calls back.
  void Save(std::vector<std::string> leaving, absl::AnyInvocable<void(absl::Status)> saved);
  void StartFetch(const std::string& key, const WantedContent& wanted);
  void Fetched(const std::string& key, const absl::Status& status);
  void Await(const std::string& key, Callback<std::string> done);
  absl::Status OnItsWay(const Fetching& fetching) const;
  absl::StatusOr<std::string> Send(const capstan::dataloader::v1::CommitOutputRequest& commit,
                                   const std::string& directory, const std::string& copy);

  const NodeCacheOptions options_;
  const SafeRoot root_;
  LoaderContent* const loader_;
  Strand* const strand_;
  Random random_;
  const log::Logger* const logger_;
  CacheWatcher* const watcher_;
  Metrics metrics_;
  CacheCore core_;
  // The newest record is not on the disk.
  bool unsaved_ = false;
  uint64_t saves_ = 0;
  std::map<std::string, Fetching> fetching_;
  uint64_t next_waiter_ = 1;
  const std::shared_ptr<char> alive_ = std::make_shared<char>();
  // Short work on the folder, in order.
  std::unique_ptr<ThreadStrand> files_;
  std::unique_ptr<WorkThreads> fetches_;
  // Apart, so that checkpoints do not wait for data.
  std::unique_ptr<WorkThreads> uploads_;
};

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_NODE_CACHE_H_
