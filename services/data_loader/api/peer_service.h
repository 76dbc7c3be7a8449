#ifndef CAPSTAN_SERVICES_DATA_LOADER_API_PEER_SERVICE_H_
#define CAPSTAN_SERVICES_DATA_LOADER_API_PEER_SERVICE_H_

#include <atomic>
#include <memory>
#include <vector>

#include "absl/types/optional.h"
#include "libs/content/chunk_digests.h"
#include "libs/metrics/registry.h"
#include "libs/strand/strand.h"
#include "proto/capstan/dataloader/v1/peer.grpc.pb.h"
#include "services/data_loader/api/dataset_service.h"
#include "services/data_loader/ports/site.h"

namespace capstan::data_loader {

// Tells Nodes which others have what they want, and the digests by which they check it.
class PeerService final : public capstan::dataloader::v1::PeerService::CallbackService {
 public:
  // Content is read on `readers`, at least one, in turn: strands that may block. `registry` may be
  // null. All must outlive the server.
  PeerService(const ApiDeps& deps, const Site* site, std::vector<Strand*> readers,
              metrics::Registry* registry);

  grpc::ServerUnaryReactor* FindPeers(
      grpc::CallbackServerContext* context,
      const capstan::dataloader::v1::FindPeersRequest* request,
      capstan::dataloader::v1::FindPeersResponse* response) override;
  grpc::ServerUnaryReactor* AnnounceCopies(
      grpc::CallbackServerContext* context,
      const capstan::dataloader::v1::AnnounceCopiesRequest* request,
      capstan::dataloader::v1::AnnounceCopiesResponse* response) override;
  grpc::ServerUnaryReactor* CheckReader(
      grpc::CallbackServerContext* context,
      const capstan::dataloader::v1::CheckReaderRequest* request,
      capstan::dataloader::v1::CheckReaderResponse* response) override;
  grpc::ServerWriteReactor<capstan::dataloader::v1::ChunkDigests>* ReadChunkDigests(
      grpc::CallbackServerContext* context,
      const capstan::dataloader::v1::ReadChunkDigestsRequest* request) override;

 private:
  const ApiDeps deps_;
  const Site* const site_;
  const std::vector<Strand*> readers_;
  std::atomic<size_t> next_reader_ = 0;
  const std::shared_ptr<content::ChunkDigests> digests_ = std::make_shared<content::ChunkDigests>();
  // Streams of digests that are open.
  const std::shared_ptr<std::atomic<int>> reading_ = std::make_shared<std::atomic<int>>(0);
  absl::optional<metrics::Counter> to_peers_;
  absl::optional<metrics::Counter> to_site_;
};

}  // namespace capstan::data_loader

#endif  // CAPSTAN_SERVICES_DATA_LOADER_API_PEER_SERVICE_H_
