#include "services/node_agent/adapters/peer_grpc_network.h"

#include <atomic>
#include <map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/optional.h"
#include "libs/digest/sha256.h"
#include "libs/resource/name.h"
#include "libs/rpc/status_conversion.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "proto/capstan/dataloader/v1/peer.grpc.pb.h"
#include "services/node_agent/adapters/open_calls.h"

namespace capstan::node_agent {
namespace {

namespace pb = ::capstan::dataloader::v1;

constexpr absl::Duration kAskDeadline = absl::Seconds(10);
// data_loader may have to read what it has not hashed yet.
constexpr absl::Duration kDigestsDeadline = absl::Minutes(2);
// Whoever gives less is too slow to be worth it.
constexpr absl::Duration kReadPatience = absl::Seconds(30);
constexpr int64_t kSlowestBytesPerSecond = 256 << 10;
constexpr size_t kMaxChannels = 64;

// What has been heard of a peer during one read.
struct Heard {
  absl::Mutex mutex;
  // Null once the call is over.
  grpc::ClientContext* context ABSL_GUARDED_BY(mutex) = nullptr;
  bool stalled ABSL_GUARDED_BY(mutex) = false;
  int64_t messages ABSL_GUARDED_BY(mutex) = 0;
  int64_t bytes ABSL_GUARDED_BY(mutex) = 0;
  int64_t last_messages ABSL_GUARDED_BY(mutex) = 0;
  int64_t last_bytes ABSL_GUARDED_BY(mutex) = 0;
  absl::Duration without_bytes ABSL_GUARDED_BY(mutex);
};

class PeerGrpcNetwork final : public PeerNetwork {
 public:
  PeerGrpcNetwork(const std::shared_ptr<grpc::Channel>& loader, PeerDialer dial,
                  PeerGrpcOptions options, Strand* strand, metrics::Registry* registry)
      : loader_(pb::PeerService::NewStub(loader)),
        dial_(std::move(dial)),
        options_(std::move(options)),
        strand_(strand) {
    if (registry == nullptr) return;
    fetched_bytes_ = registry->AddCounter("cache_fetched_bytes_total",
                                          "Content brought to this Node", {{"origin", "peer"}});
  }

  absl::StatusOr<pb::FindPeersResponse> FindPeers(const pb::FindPeersRequest& request) override {
    OpenCalls::Call call(&calls_, kAskDeadline);
    pb::FindPeersResponse response;
    CAPSTAN_RETURN_IF_ERROR(
        rpc::FromGrpcStatus(loader_->FindPeers(call.context(), request, &response)));
    return response;
  }

  absl::StatusOr<std::vector<std::string>> ReadChunkDigests(const pb::ContentRef& content,
                                                            int64_t first, int count) override {
    OpenCalls::Call call(&calls_, kDigestsDeadline);
    pb::ReadChunkDigestsRequest request;
    *request.mutable_content() = content;
    request.set_first_chunk(first);
    request.set_chunk_count(count);
    const auto reader = loader_->ReadChunkDigests(call.context(), request);
    std::vector<std::string> digests;
    pb::ChunkDigests piece;
    while (reader->Read(&piece)) {
      for (size_t at = 0; at + Sha256::kSize <= piece.sha256().size(); at += Sha256::kSize) {
        if (digests.size() < static_cast<size_t>(count)) {
          digests.push_back(piece.sha256().substr(at, Sha256::kSize));
        }
      }
    }
    CAPSTAN_RETURN_IF_ERROR(rpc::FromGrpcStatus(reader->Finish()));
    return digests;
  }

  absl::Status Read(const pb::Peer& peer, const pb::ContentRef& content, int64_t offset,
                    int64_t length,
                    absl::FunctionRef<absl::Status(absl::string_view)> sink) override {
    CAPSTAN_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel, ChannelTo(peer));
    const auto stub = pb::PeerContentService::NewStub(channel);
    OpenCalls::Call call(&calls_, kReadPatience + absl::Seconds(length / kSlowestBytesPerSecond));
    const auto heard = std::make_shared<Heard>();
    {
      absl::MutexLock lock(&heard->mutex);
      heard->context = call.context();
    }
    Watch(heard);
    pb::ReadContentRequest request;
    *request.mutable_content() = content;
    request.set_offset(offset);
    request.set_length(length);
    const auto reader = stub->ReadPeerContent(call.context(), request);
    pb::ReadContentResponse response;
    int64_t left = length;
    absl::Status taken;
    while (reader->Read(&response)) {
      const auto size = static_cast<int64_t>(response.chunk().size());
      {
        absl::MutexLock lock(&heard->mutex);
        ++heard->messages;
        heard->bytes += size;
      }
      if (!taken.ok() || size == 0) continue;
      if (fetched_bytes_.has_value()) fetched_bytes_->Increment(static_cast<double>(size));
      taken = size > left ? status::Error(absl::StatusCode::kUnavailable, "CONTENT_TOO_LONG",
                                          "more bytes come than were asked for")
                          : sink(response.chunk());
      left -= size;
      if (!taken.ok()) call.context()->TryCancel();
    }
    const absl::Status status = rpc::FromGrpcStatus(reader->Finish());
    bool stalled = false;
    {
      absl::MutexLock lock(&heard->mutex);
      heard->context = nullptr;
      stalled = heard->stalled;
    }
    CAPSTAN_RETURN_IF_ERROR(taken);
    if (stalled) {
      return status::Error(absl::StatusCode::kUnavailable, "PEER_STALLED",
                           absl::StrCat("nothing comes from '", peer.node(), "'"));
    }
    CAPSTAN_RETURN_IF_ERROR(status);
    if (left > 0) return absl::UnavailableError("the stream of content ended early");
    return absl::OkStatus();
  }

  void Stop() override { calls_.Stop(); }

 private:
  absl::StatusOr<std::shared_ptr<grpc::Channel>> ChannelTo(const pb::Peer& peer) {
    const absl::StatusOr<resource::NodeName> node = resource::NodeName::Parse(peer.node());
    if (!node.ok() || node->cluster != options_.cluster) {
      return status::Error(
          absl::StatusCode::kPermissionDenied, "NOT_OF_THIS_CLUSTER",
          absl::StrCat("'", peer.node(), "' is no Node of '", options_.cluster, "'"));
    }
    absl::MutexLock lock(&mutex_);
    if (channels_.size() >= kMaxChannels) channels_.clear();
    std::shared_ptr<grpc::Channel>& channel = channels_[{peer.node(), peer.address()}];
    if (channel == nullptr) {
      channel = dial_(peer.address(), absl::StrCat("/node/", node->cluster, "/", node->node));
    }
    return channel;
  }

  // Ends the call when nothing is heard, or only that the peer is there, for too long.
  void Watch(const std::shared_ptr<Heard>& heard) {
    strand_->RunAfter(options_.patience, [this, heard] {
      {
        absl::MutexLock lock(&heard->mutex);
        if (heard->context == nullptr) return;
        heard->without_bytes = heard->bytes == heard->last_bytes
                                   ? heard->without_bytes + options_.patience
                                   : absl::ZeroDuration();
        if (heard->messages == heard->last_messages ||
            heard->without_bytes >= options_.patience_without_bytes) {
          heard->stalled = true;
          heard->context->TryCancel();
          return;
        }
        heard->last_messages = heard->messages;
        heard->last_bytes = heard->bytes;
      }
      Watch(heard);
    });
  }

  const std::unique_ptr<pb::PeerService::Stub> loader_;
  const PeerDialer dial_;
  const PeerGrpcOptions options_;
  Strand* const strand_;
  OpenCalls calls_;
  absl::optional<metrics::Counter> fetched_bytes_;
  absl::Mutex mutex_;
  std::map<std::pair<std::string, std::string>, std::shared_ptr<grpc::Channel>> channels_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<PeerNetwork> MakePeerGrpcNetwork(const std::shared_ptr<grpc::Channel>& loader,
                                                 PeerDialer dial, const PeerGrpcOptions& options,
                                                 Strand* strand, metrics::Registry* registry) {
  return std::make_unique<PeerGrpcNetwork>(loader, std::move(dial), options, strand, registry);
}

}  // namespace capstan::node_agent
