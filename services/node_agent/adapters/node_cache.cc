#include "services/node_agent/adapters/node_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "libs/content/copy_and_hash.h"
#include "libs/content/manifest.h"
#include "libs/content/publish.h"
#include "libs/safe_path/folder_names.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"

namespace capstan::node_agent {
namespace {

namespace pb = ::capstan::dataloader::v1;

constexpr char kRecord[] = "cache.binpb";
constexpr size_t kMaxRecord = 64 << 20;
constexpr const char* kCollections[] = {"versions", "bundles", "outputs"};

std::string Gibibytes(int64_t bytes) {
  return absl::StrFormat("%.2f GiB", static_cast<double>(bytes) / (1 << 30));
}

}  // namespace

absl::StatusOr<std::unique_ptr<NodeCache>> NodeCache::Open(const NodeCacheOptions& options,
                                                           LoaderContent* loader, Strand* strand,
                                                           Random random, const log::Logger* logger,
                                                           metrics::Registry* registry,
                                                           CacheWatcher* watcher) {
  if (::mkdir(options.folder.c_str(), 0755) != 0 && errno != EEXIST) {
    return ErrnoStatus(errno, "mkdir", options.folder);
  }
  CAPSTAN_ASSIGN_OR_RETURN(SafeRoot root, SafeRoot::Open(options.folder));
  for (const char* folder : {"versions", "bundles", "outputs", "outgoing"}) {
    CAPSTAN_RETURN_IF_ERROR(root.MakeDirectories(folder, 0755));
  }
  CAPSTAN_RETURN_IF_ERROR(root.MakeDirectories("staging", 0700));
  auto cache = std::unique_ptr<NodeCache>(
      new NodeCache(options, std::move(root), loader, strand, random, logger, registry, watcher));
  CAPSTAN_RETURN_IF_ERROR(cache->Load());
  return cache;
}

NodeCache::NodeCache(const NodeCacheOptions& options, SafeRoot root, LoaderContent* loader,
                     Strand* strand, Random random, const log::Logger* logger,
                     metrics::Registry* registry, CacheWatcher* watcher)
    : options_(options),
      root_(std::move(root)),
      loader_(loader),
      strand_(strand),
      random_(random),
      logger_(logger),
      watcher_(watcher),
      core_(options.limit_bytes),
      files_(std::make_unique<ThreadStrand>("cache-files", &strand->clock())),
      fetches_(std::make_unique<WorkThreads>(options.threads)),
      uploads_(std::make_unique<WorkThreads>(1)) {
  if (registry == nullptr) return;
  metrics_.sent_bytes =
      registry->AddCounter("output_sent_bytes_total", "Content of Outputs sent to data_loader");
  metrics_.evicted =
      registry->AddCounter("cache_evictions_total", "Contents that left for others' room");
  metrics_.refused = registry->AddCounter("cache_refusals_total",
                                          "Contents for which there was no room to be made");
  metrics_.bytes = registry->AddGauge("cache_bytes", "Content in the Node's cache");
}

NodeCache::~NodeCache() {
  fetches_->Stop();
  uploads_->Stop();
  loader_->Stop();
  fetches_.reset();
  uploads_.reset();
  files_.reset();
}

std::string NodeCache::Path(const std::string& key) const {
  return absl::StrCat(root_.path(), "/", key);
}

absl::Status NodeCache::Load() {
  CacheRecord record;
  absl::StatusOr<UniqueFd> fd = root_.OpenFile(kRecord, O_RDONLY);
  if (fd.ok()) {
    CAPSTAN_ASSIGN_OR_RETURN(const std::string bytes, ReadAll(fd->get(), kMaxRecord, kRecord));
    if (!record.ParseFromString(bytes)) {
      // Without it nobody knows what Tasks hold.
      return status::Error(absl::StatusCode::kDataLoss, "CACHE_RECORD_CORRUPT",
                           absl::StrCat("'", Path(kRecord),
                                        "' can't be parsed; end the Node's "
                                        "Tasks and remove the folder"));
    }
  } else if (!absl::IsNotFound(fd.status())) {
    return fd.status();
  }
  std::map<std::string, int64_t> recorded;
  for (const CacheRecord::Entry& entry : record.entries()) recorded[entry.key()] = entry.bytes();
  std::map<std::string, int64_t> whole;
  std::set<std::string> staged;
  std::set<std::string> staging;
  for (const char* collection : kCollections) {
    for (const std::string& name : FolderNames(Path(collection))) {
      const std::string key = absl::StrCat(collection, "/", name);
      if (absl::EndsWith(name, ".manifest")) {
        // Of content that was about to come, or has left.
        const std::string content(absl::StripSuffix(key, ".manifest"));
        if (!root_.Stat(content).ok()) CAPSTAN_RETURN_IF_ERROR(root_.Remove(key));
        continue;
      }
      if (recorded.count(key) != 0) {
        whole[key] = recorded[key];
        continue;
      }
      const absl::StatusOr<pb::Manifest> manifest = content::ReadManifest(root_, key);
      if (manifest.ok()) {
        whole[key] = content::TotalBytes(*manifest);
      } else {
        CAPSTAN_RETURN_IF_ERROR(root_.RemoveTree(key));
      }
    }
  }
  for (const auto& [key, bytes] : recorded) {
    if (root_.Stat(StagingFolderOf(key)).ok()) staged.insert(key);
    staging.insert(std::string(absl::StripPrefix(StagingFolderOf(key), "staging/")));
  }
  for (const std::string& name : FolderNames(Path("staging"))) {
    if (staging.count(name) == 0) {
      CAPSTAN_RETURN_IF_ERROR(root_.RemoveTree(absl::StrCat("staging/", name)));
    }
  }
  CAPSTAN_ASSIGN_OR_RETURN(const std::vector<std::string> useless,
                           core_.Load(record, whole, staged));
  for (const std::string& key : useless) {
    CAPSTAN_RETURN_IF_ERROR(root_.RemoveTree(StagingFolderOf(key)));
  }
  if (metrics_.bytes.has_value()) metrics_.bytes->Set(static_cast<double>(core_.bytes()));
  if (watcher_ != nullptr) {
    for (const auto& [key, bytes] : whole) watcher_->Whole(key, bytes);
  }
  return absl::OkStatus();
}

void NodeCache::Save(std::vector<std::string> leaving,
                     absl::AnyInvocable<void(absl::Status)> saved) {
  unsaved_ = true;
  const uint64_t save = ++saves_;
  if (metrics_.bytes.has_value()) metrics_.bytes->Set(static_cast<double>(core_.bytes()));
  std::vector<std::pair<std::string, std::string>> removals;
  for (std::string& key : leaving) {
    logger_->Info("content left the Node's cache", {{"content", key}});
    if (metrics_.evicted.has_value()) metrics_.evicted->Increment();
    if (watcher_ != nullptr) watcher_->Gone(key);
    removals.emplace_back(std::move(key), absl::StrCat("staging/leaving-", random_.Uuid4()));
  }
  files_->Post([this, save, bytes = core_.Record().SerializeAsString(),
                removals = std::move(removals), saved = std::move(saved)]() mutable {
    absl::Status status = WriteFileAtomically(Path(kRecord), bytes, 0600);
    if (status.ok()) {
      for (const auto& [key, leaving] : removals) {
        // By one rename, so that no one finds a part of it.
        if (root_.Rename(key, leaving, false).ok()) root_.Remove(key + ".manifest").IgnoreError();
        root_.RemoveTree(leaving).IgnoreError();
        root_.RemoveTree(StagingFolderOf(key)).IgnoreError();
      }
    }
    strand_->Post([this, alive = std::weak_ptr<char>(alive_), save, status,
                   saved = std::move(saved)]() mutable {
      if (alive.expired()) return;
      if (status.ok() && save == saves_) unsaved_ = false;
      saved(status);
    });
  });
}

void NodeCache::Bring(const WantedContent& wanted, Callback<std::string> done) {
  const absl::StatusOr<std::string> hex = content::DigestHex(wanted.content.manifest_digest());
  if (!hex.ok()) return done(hex.status());
  const std::string key = absl::StrCat(wanted.collection, "/", *hex);
  absl::StatusOr<CacheCore::Plan> plan =
      core_.Want(key, wanted.total_bytes, wanted.content.holder(),
                 absl::StrCat("'", wanted.content.resource(), "'"), strand_->clock().Read().wall);
  if (!plan.ok()) {
    if (metrics_.refused.has_value()) metrics_.refused->Increment();
    return done(plan.status());
  }
  if (plan->next == CacheCore::Plan::Next::kFetch) {
    Fetching& fetching = fetching_[key];
    fetching.what = wanted.content.resource();
    fetching.total_bytes = wanted.total_bytes;
    fetching.since = strand_->clock().Read().wall;
  }
  const bool fetch = plan->next == CacheCore::Plan::Next::kFetch;
  auto go_on = [this, key, wanted, fetch, done = std::move(done)](absl::Status saved) mutable {
    if (!saved.ok()) {
      if (fetch) Fetched(key, saved);
      return done(saved);
    }
    if (fetch) StartFetch(key, wanted);
    if (fetching_.count(key) != 0) return Await(key, std::move(done));
    // It came, or failed to, while the hold was stored: asked again that shows.
    if (root_.Stat(key).ok()) return done(Path(key));
    done(status::Error(absl::StatusCode::kUnavailable, "DATA_ON_ITS_WAY",
                       absl::StrCat("'", wanted.content.resource(), "' is to be brought again")));
  };
  if (!plan->changed && !unsaved_) {
    return go_on(absl::OkStatus());
  }
  Save(std::move(plan->leaving), std::move(go_on));
}

void NodeCache::Await(const std::string& key, Callback<std::string> done) {
  const uint64_t waiter = next_waiter_++;
  fetching_.at(key).waiters.emplace(waiter, std::move(done));
  strand_->RunAfter(options_.patience, [this, alive = std::weak_ptr<char>(alive_), key, waiter] {
    if (alive.expired()) return;
    const auto fetching = fetching_.find(key);
    if (fetching == fetching_.end()) return;
    const auto found = fetching->second.waiters.find(waiter);
    if (found == fetching->second.waiters.end()) return;
    Callback<std::string> done = std::move(found->second);
    fetching->second.waiters.erase(found);
    done(OnItsWay(fetching->second));
  });
}

absl::Status NodeCache::OnItsWay(const Fetching& fetching) const {
  const int64_t done = *fetching.done_bytes;
  const int64_t percent = fetching.total_bytes == 0 ? 100 : done * 100 / fetching.total_bytes;
  const double seconds =
      std::max(0.001, absl::ToDoubleSeconds(strand_->clock().Read().wall - fetching.since));
  return status::Error(absl::StatusCode::kUnavailable, "DATA_ON_ITS_WAY",
                       absl::StrFormat("bringing '%s' to the Node: %d %% of %s, %.1f MiB/s",
                                       fetching.what, percent, Gibibytes(fetching.total_bytes),
                                       static_cast<double>(done) / seconds / (1 << 20)));
}

void NodeCache::StartFetch(const std::string& key, const WantedContent& wanted) {
  if (watcher_ != nullptr) watcher_->Growing(key, wanted.total_bytes);
  fetches_->Run([this, key, content = wanted.content, random = Random(random_.Next()),
                 done_bytes = fetching_.at(key).done_bytes] {
    const auto pause = [this](absl::Duration pause) { fetches_->Pause(pause); };
    const auto progressed = [this, &key, &done_bytes](int64_t done, int64_t) {
      *done_bytes = done;
      if (watcher_ != nullptr) watcher_->Advanced(key, done);
    };
    const absl::Status status =
        FetchContent(root_, key, content, *loader_, options_.fetch, random,
                     FetchControl{&fetches_->stopping(), pause, progressed});
    strand_->Post([this, alive = std::weak_ptr<char>(alive_), key, status] {
      if (!alive.expired()) Fetched(key, status);
    });
  });
}

void NodeCache::Fetched(const std::string& key, const absl::Status& status) {
  const auto found = fetching_.find(key);
  if (found == fetching_.end()) return;
  if (status.ok()) {
    core_.Came(key);
    if (watcher_ != nullptr) watcher_->Whole(key, found->second.total_bytes);
    logger_->Info("content came to the Node's cache",
                  {{"content", key}, {"bytes", found->second.total_bytes}});
  } else {
    core_.Failed(key);
    if (watcher_ != nullptr) watcher_->Gone(key);
    logger_->Warning("content did not come", {{"content", key}, {"cause", status}});
  }
  auto waiters = std::move(found->second.waiters);
  fetching_.erase(found);
  for (auto& [id, done] : waiters) {
    if (status.ok()) {
      done(Path(key));
    } else {
      done(status);
    }
  }
}

void NodeCache::Release(const std::string& holder, absl::AnyInvocable<void(absl::Status)> done) {
  const bool changed = core_.Release(holder, strand_->clock().Read().wall);
  if (CheckRelativePath(holder).ok()) {
    files_->Post([this, folder = absl::StrCat("outgoing/", holder)] {
      root_.RemoveTree(folder).IgnoreError();
      // Goes with its last generation.
      ::unlinkat(root_.fd(), folder.substr(0, folder.rfind('/')).c_str(), AT_REMOVEDIR);
    });
  }
  if (changed || unsaved_) return Save({}, std::move(done));
  files_->Post([this, done = std::move(done)]() mutable {
    strand_->Post([alive = std::weak_ptr<char>(alive_), done = std::move(done)]() mutable {
      if (!alive.expired()) done(absl::OkStatus());
    });
  });
}

void NodeCache::OpenOutgoing(const std::string& holder, Callback<std::string> done) {
  files_->Post([this, holder, done = std::move(done)]() mutable {
    const std::string folder = absl::StrCat("outgoing/", holder);
    absl::Status made = root_.MakeDirectories(folder, 0755);
    const std::string job = folder.substr(0, folder.rfind('/'));
    if (made.ok()) {
      for (const std::string& generation : FolderNames(Path(job))) {
        const std::string other = absl::StrCat(job, "/", generation);
        if (other != folder) root_.RemoveTree(other).IgnoreError();
      }
    }
    strand_->Post([alive = std::weak_ptr<char>(alive_), made, path = Path(folder),
                   done = std::move(done)]() mutable {
      if (alive.expired()) return;
      if (!made.ok()) return done(made);
      done(path);
    });
  });
}

absl::StatusOr<std::string> NodeCache::Send(const pb::CommitOutputRequest& commit,
                                            const std::string& directory, const std::string& copy) {
  absl::string_view folder = directory;
  if (!absl::ConsumePrefix(&folder, absl::StrCat(root_.path(), "/")) ||
      !absl::StartsWith(folder, "outgoing/")) {
    return status::Error(
        absl::StatusCode::kInvalidArgument, "INVALID_FIELD",
        absl::StrCat("directory: '", directory, "' does not lie in the Node's folder for Outputs"));
  }
  const absl::Cleanup remove = [this, &copy] { root_.RemoveTree(copy).IgnoreError(); };
  CAPSTAN_ASSIGN_OR_RETURN(
      const pb::Manifest manifest,
      content::CopyAndHash(root_, std::string(folder), copy, uploads_->stopping()));
  CAPSTAN_ASSIGN_OR_RETURN(const SafeRoot files, root_.Descend(copy));
  CAPSTAN_ASSIGN_OR_RETURN(const pb::CommitOutputResponse response,
                           loader_->SendOutput(commit, files, manifest));
  if (metrics_.sent_bytes.has_value()) {
    metrics_.sent_bytes->Increment(static_cast<double>(content::TotalBytes(manifest)));
  }
  return response.manifest_digest();
}

void NodeCache::SendOutput(const pb::CommitOutputRequest& commit, const std::string& directory,
                           Callback<std::string> done) {
  const std::string copy = absl::StrCat("staging/upload-", random_.Uuid4());
  uploads_->Run([this, commit, directory, copy, done = std::move(done)]() mutable {
    absl::StatusOr<std::string> digest = Send(commit, directory, copy);
    strand_->Post([alive = std::weak_ptr<char>(alive_), digest = std::move(digest),
                   done = std::move(done)]() mutable {
      if (!alive.expired()) done(std::move(digest));
    });
  });
}

}  // namespace capstan::node_agent
