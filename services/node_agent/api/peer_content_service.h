#ifndef CAPSTAN_SERVICES_NODE_AGENT_API_PEER_CONTENT_SERVICE_H_
#define CAPSTAN_SERVICES_NODE_AGENT_API_PEER_CONTENT_SERVICE_H_

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "libs/auth/access.h"
#include "libs/metrics/registry.h"
#include "libs/strand/strand.h"
#include "proto/capstan/dataloader/v1/peer.grpc.pb.h"
#include "services/node_agent/core/upload_budget.h"
#include "services/node_agent/held_copies.h"
#include "services/node_agent/ports/reader_check.h"

namespace capstan::node_agent {

struct PeerContentOptions {
  // The Node's own; readers of another one are strangers.
  std::string cluster;
  int max_uploads = 4;
  // 0 is no bound.
  int64_t bytes_per_second = 0;
  // How often content on its way is looked at, its reader is told that the Node is there, and how
  // long nothing may come to it.
  absl::Duration look_every = absl::Milliseconds(20);
  absl::Duration heartbeat = absl::Seconds(1);
  absl::Duration starved_after = absl::Seconds(20);
};

// What the uploads of one server share. Thread-safe.
struct UploadState {
  UploadState(const PeerContentOptions& given, const HeldCopies* held)
      : options(given), copies(held), budget(given.max_uploads, given.bytes_per_second) {}

  const PeerContentOptions options;
  const HeldCopies* const copies;
  std::atomic<bool> leaving = false;
  absl::Mutex mutex;
  UploadBudget budget ABSL_GUARDED_BY(mutex);
  absl::optional<metrics::Counter> sent_bytes;
  absl::optional<metrics::Gauge> uploads;
};

// Gives what the Node's cache holds to the Nodes of its Cluster that may have it.
class PeerContentService final
    : public capstan::dataloader::v1::PeerContentService::CallbackService {
 public:
  // Content is read on `disks`, at least one, in turn: strands that may block. `registry` may be
  // null. All must outlive the server, and the disks must stop before the rest goes.
  PeerContentService(auth::Access* access, const HeldCopies* copies, ReaderCheck* check,
                     const PeerContentOptions& options, std::vector<Strand*> disks,
                     metrics::Registry* registry);

  grpc::ServerWriteReactor<capstan::dataloader::v1::ReadContentResponse>* ReadPeerContent(
      grpc::CallbackServerContext* context,
      const capstan::dataloader::v1::ReadContentRequest* request) override;

  int uploads() const;
  // From now on everybody is told to ask another peer.
  void Leave() { state_->leaving = true; }

 private:
  auth::Access* const access_;
  ReaderCheck* const check_;
  const std::vector<Strand*> disks_;
  std::atomic<size_t> next_disk_ = 0;
  absl::optional<metrics::Counter> refused_;
  const std::shared_ptr<UploadState> state_;
};

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_API_PEER_CONTENT_SERVICE_H_
