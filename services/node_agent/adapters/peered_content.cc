#include "services/node_agent/adapters/peered_content.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/optional.h"
#include "libs/content/chunk_digests.h"
#include "libs/digest/sha256.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"

namespace capstan::node_agent {
namespace {

namespace pb = ::capstan::dataloader::v1;

// Contents for which failures are remembered, and the most that a request may name.
constexpr size_t kMaxContents = 64;
constexpr size_t kMaxNamed = 64;

using Sink = absl::FunctionRef<absl::Status(absl::string_view)>;

// Passes on the bytes of a range, a whole chunk at a time, once they are what its digest says. What
// comes begins with the chunk that the range begins in.
class ChunkCheck {
 public:
  ChunkCheck(int64_t from, int64_t end, int64_t total, std::vector<std::string> digests, Sink sink)
      : end_(end),
        total_(total),
        first_chunk_(from / content::kChunkBytes),
        digests_(std::move(digests)),
        sink_(sink),
        chunk_(first_chunk_),
        passed_(from) {}

  // Where to begin reading, and how much.
  int64_t start() const { return first_chunk_ * content::kChunkBytes; }
  int64_t length() const {
    const int64_t last = content::ChunkCount(end_);
    return std::min(total_, last * content::kChunkBytes) - start();
  }
  // The range has been passed on up to here.
  int64_t passed() const { return passed_; }
  // An error of the sink's own.
  const absl::Status& sink_status() const { return sink_status_; }

  absl::Status Take(absl::string_view bytes) {
    while (!bytes.empty()) {
      const auto size = static_cast<size_t>(content::ChunkSize(chunk_, total_));
      const absl::string_view piece = bytes.substr(0, size - pending_.size());
      pending_.append(piece.data(), piece.size());
      bytes.remove_prefix(piece.size());
      if (pending_.size() == size) CAPSTAN_RETURN_IF_ERROR(Pass());
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Pass() {
    const auto index = static_cast<size_t>(chunk_ - first_chunk_);
    if (index >= digests_.size() || Sha256::Of(pending_) != digests_[index]) {
      return status::Error(absl::StatusCode::kDataLoss, "CHUNK_MISMATCH",
                           absl::StrCat("chunk ", chunk_, " is not what its digest says"));
    }
    absl::string_view good = pending_;
    good.remove_prefix(static_cast<size_t>(passed_ - chunk_ * content::kChunkBytes));
    good = good.substr(0, static_cast<size_t>(end_ - passed_));
    sink_status_ = sink_(good);
    if (!sink_status_.ok()) return sink_status_;
    passed_ += static_cast<int64_t>(good.size());
    ++chunk_;
    pending_.clear();
    return absl::OkStatus();
  }

  const int64_t end_;
  const int64_t total_;
  const int64_t first_chunk_;
  const std::vector<std::string> digests_;
  const Sink sink_;
  int64_t chunk_;
  int64_t passed_;
  std::string pending_;
  absl::Status sink_status_;
};

class PeeredContent final : public LoaderContent {
 public:
  PeeredContent(LoaderContent* loader, PeerNetwork* network, PeeredContentOptions options,
                const Clock* clock, const log::Logger* logger, metrics::Registry* registry)
      : loader_(loader),
        network_(network),
        options_(std::move(options)),
        clock_(clock),
        logger_(logger) {
    if (registry == nullptr) return;
    for (const char* why : {"wrong", "busy", "failed"}) {
      failures_.emplace(
          why, registry->AddCounter("cache_peer_failures_total",
                                    "Peers that were left for another one", {{"why", why}}));
    }
  }

  absl::StatusOr<pb::Manifest> ReadManifest(const pb::ContentRef& content) override {
    return loader_->ReadManifest(content);
  }
  absl::StatusOr<pb::CommitOutputResponse> SendOutput(const pb::CommitOutputRequest& commit,
                                                      const SafeRoot& root,
                                                      const pb::Manifest& manifest) override {
    return loader_->SendOutput(commit, root, manifest);
  }
  void Stop() override {
    network_->Stop();
    loader_->Stop();
  }

  absl::Status Read(const pb::ContentRef& content, const ContentRange& range, Sink sink) override {
    if (range.total < options_.least_bytes) return loader_->Read(content, range, sink);
    const int64_t end = range.offset + range.length;
    bool asks = true;
    for (int64_t at = range.offset; at < end;) {
      pb::FindPeersResponse peers;
      if (asks) {
        absl::StatusOr<pb::FindPeersResponse> found =
            network_->FindPeers(Question(content, at, range.total));
        if (absl::IsCancelled(found.status())) return found.status();
        // A data_loader that knows of no peers gives content all the same, or says why not.
        asks = found.ok();
        if (found.ok()) peers = *std::move(found);
      }
      bool ask_again = false;
      for (const pb::Peer& peer : peers.peers()) {
        // Named in the question, but not all may have found room there.
        if (WasWrong(content, peer)) continue;
        const int64_t to = std::min(end, at + options_.peer_range);
        const absl::StatusOr<std::vector<std::string>> digests = Digests(content, at, to);
        if (!digests.ok()) break;
        ChunkCheck check(at, to, range.total, *digests, sink);
        const absl::Status read =
            network_->Read(peer, content, check.start(), check.length(),
                           [&check](absl::string_view bytes) { return check.Take(bytes); });
        if (!check.sink_status().ok()) return check.sink_status();
        // With more here, others can help; and of one that is wrong the others should know.
        ask_again = check.passed() > at || status::Reason(read) == "CHUNK_MISMATCH";
        at = check.passed();
        if (at >= to) break;
        if (absl::IsCancelled(read)) return read;
        Failed(content, peer, read);
        if (ask_again) break;
      }
      if (ask_again) continue;
      // Nobody, or nobody who could: the Site gives the next range.
      const int64_t to = std::min(end, at + options_.site_range);
      CAPSTAN_RETURN_IF_ERROR(ReadSite(content, at, to, range.total, sink));
      at = to;
    }
    return absl::OkStatus();
  }

 private:
  struct Failures {
    // Peers that are avoided, until when.
    std::map<std::string, BootTime> avoid;
    std::set<std::string> wrong;
    BootTime last;
  };

  pb::FindPeersRequest Question(const pb::ContentRef& content, int64_t have, int64_t total) {
    pb::FindPeersRequest request;
    *request.mutable_content() = content;
    request.set_address(options_.address);
    request.set_have_bytes(have);
    request.set_total_bytes(total);
    const BootTime now = clock_->Read().boot;
    absl::MutexLock lock(&mutex_);
    const auto known = failures_of_.find(content.manifest_digest());
    if (known == failures_of_.end()) return request;
    for (const auto& [node, until] : known->second.avoid) {
      if (until > now && static_cast<size_t>(request.avoid_size()) < kMaxNamed) {
        request.add_avoid(node);
      }
    }
    for (const std::string& node : known->second.wrong) {
      if (static_cast<size_t>(request.wrong_size()) < kMaxNamed) request.add_wrong(node);
    }
    return request;
  }

  bool WasWrong(const pb::ContentRef& content, const pb::Peer& peer) {
    absl::MutexLock lock(&mutex_);
    const auto known = failures_of_.find(content.manifest_digest());
    return known != failures_of_.end() && known->second.wrong.count(peer.node()) > 0;
  }

  absl::StatusOr<std::vector<std::string>> Digests(const pb::ContentRef& content, int64_t from,
                                                   int64_t to) {
    const int64_t first = from / content::kChunkBytes;
    const int64_t count = content::ChunkCount(to) - first;
    absl::StatusOr<std::vector<std::string>> digests =
        network_->ReadChunkDigests(content, first, static_cast<int>(count));
    if (!digests.ok()) {
      logger_->Warning("no digests to check a peer's bytes by",
                       {{"content", content.resource()}, {"cause", digests.status()}});
    }
    return digests;
  }

  absl::Status ReadSite(const pb::ContentRef& content, int64_t from, int64_t to, int64_t total,
                        Sink sink) {
    // Files are checked by their digests when they are whole; chunks are too, since peers may be
    // given them before that.
    const absl::StatusOr<std::vector<std::string>> digests = Digests(content, from, to);
    if (!digests.ok()) return loader_->Read(content, {from, to - from, total}, sink);
    ChunkCheck check(from, to, total, *digests, sink);
    const absl::Status read =
        loader_->Read(content, {check.start(), check.length(), total},
                      [&check](absl::string_view bytes) { return check.Take(bytes); });
    if (!check.sink_status().ok()) return check.sink_status();
    if (status::Reason(read) == "CHUNK_MISMATCH") {
      // Damaged on its way: worth another attempt.
      return absl::UnavailableError(read.message());
    }
    return read;
  }

  void Failed(const pb::ContentRef& content, const pb::Peer& peer, const absl::Status& why) {
    const bool wrong = status::Reason(why) == "CHUNK_MISMATCH";
    const bool busy = absl::IsResourceExhausted(why);
    const auto counted = failures_.find(wrong ? "wrong" : busy ? "busy" : "failed");
    if (counted != failures_.end()) counted->second.Increment();
    if (wrong) {
      logger_->Error("a peer gave wrong bytes; another one is asked",
                     {{"peer", peer.node()}, {"content", content.resource()}, {"cause", why}});
    } else {
      logger_->Info("another peer is asked",
                    {{"instead_of", peer.node()}, {"content", content.resource()}, {"cause", why}});
    }
    const BootTime now = clock_->Read().boot;
    absl::MutexLock lock(&mutex_);
    Failures& failures = failures_of_[content.manifest_digest()];
    failures.last = now;
    failures.avoid[peer.node()] = now + (busy ? options_.busy_for : options_.failed_for);
    if (wrong) failures.wrong.insert(peer.node());
    if (failures_of_.size() > kMaxContents) {
      failures_of_.erase(std::min_element(
          failures_of_.begin(), failures_of_.end(),
          [](const auto& a, const auto& b) { return a.second.last < b.second.last; }));
    }
  }

  LoaderContent* const loader_;
  PeerNetwork* const network_;
  const PeeredContentOptions options_;
  const Clock* const clock_;
  const log::Logger* const logger_;
  std::map<std::string, metrics::Counter> failures_;
  absl::Mutex mutex_;
  // By digest.
  std::map<std::string, Failures> failures_of_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<LoaderContent> MakePeeredContent(LoaderContent* loader, PeerNetwork* network,
                                                 const PeeredContentOptions& options,
                                                 const Clock* clock, const log::Logger* logger,
                                                 metrics::Registry* registry) {
  return std::make_unique<PeeredContent>(loader, network, options, clock, logger, registry);
}

}  // namespace capstan::node_agent
