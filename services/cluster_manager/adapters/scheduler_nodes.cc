#include "services/cluster_manager/adapters/scheduler_nodes.h"

#include <utility>

#include "absl/status/statusor.h"
#include "libs/rpc/call.h"

namespace capstan::cluster_manager {
namespace {

namespace pb = ::capstan::scheduler::v1;
using Async = pb::NodeService::StubInterface::async_interface;

constexpr char kAllClusters[] = "clusters/-";

}  // namespace

SchedulerNodes::SchedulerNodes(const std::shared_ptr<grpc::Channel>& channel, Strand* strand,
                               Random random, log::Logger* logger)
    : stub_(pb::NodeService::NewStub(channel)),
      strand_(strand),
      random_(random),
      logger_(logger),
      reconnect_(strand, &random_, [this] { Connect(); }) {}

SchedulerNodes::~SchedulerNodes() {
  if (reader_ != nullptr) reader_->Cancel();
}

void SchedulerNodes::Watch(Listener listener) {
  listener_ = std::move(listener);
  reconnect_.Start();
}

void SchedulerNodes::Connect() {
  // Always a fresh snapshot: it is small, and says which Nodes are gone.
  pb::WatchNodesRequest request;
  request.set_parent(kAllClusters);
  const std::weak_ptr<char> alive = alive_;
  rpc::SessionCallbacks<pb::WatchNodesResponse> callbacks;
  callbacks.on_message = [this, alive](const pb::WatchNodesResponse& response) {
    if (!alive.expired()) Took(response);
  };
  callbacks.on_closed = [this, alive](const absl::Status& why) {
    if (alive.expired()) return;
    logger_->Info("watch of nodes ended", {{"error", why}});
    listener_.lost();
    reconnect_.Lost();
  };
  reader_ = rpc::OpenStream(stub_.get(), &Async::WatchNodes, std::move(request), strand_,
                            std::move(callbacks));
}

void SchedulerNodes::Took(const pb::WatchNodesResponse& response) {
  switch (response.event_case()) {
    case pb::WatchNodesResponse::kNode:
      return listener_.seen(response.node());
    case pb::WatchNodesResponse::kDeleted:
      return listener_.gone(response.deleted());
    case pb::WatchNodesResponse::kSynced:
      reconnect_.Succeeded();
      return listener_.synced();
    case pb::WatchNodesResponse::EVENT_NOT_SET:
      return;
  }
}

void SchedulerNodes::Cordon(const std::string& node, const std::string& reason,
                            absl::AnyInvocable<void(absl::Status)> done) {
  pb::CordonNodeRequest request;
  request.set_name(node);
  request.set_reason(reason);
  rpc::CallUnary(
      stub_.get(), &Async::CordonNode, std::move(request), {}, strand_,
      [done = std::move(done)](absl::StatusOr<pb::Node> node) mutable { done(node.status()); });
}

void SchedulerNodes::Uncordon(const std::string& node,
                              absl::AnyInvocable<void(absl::Status)> done) {
  pb::UncordonNodeRequest request;
  request.set_name(node);
  rpc::CallUnary(
      stub_.get(), &Async::UncordonNode, std::move(request), {}, strand_,
      [done = std::move(done)](absl::StatusOr<pb::Node> node) mutable { done(node.status()); });
}

}  // namespace capstan::cluster_manager
