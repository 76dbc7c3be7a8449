#include "tools/capstan/cli/node_follow.h"

#include <memory>
#include <utility>

#include "libs/status/status_macros.h"
#include "proto/capstan/scheduler/v1/node.grpc.pb.h"
#include "tools/capstan/cli/follow_stream.h"

namespace capstan::cli {

using scheduler::v1::Node;
using scheduler::v1::NodeService;
using scheduler::v1::WatchNodesRequest;
using scheduler::v1::WatchNodesResponse;

absl::Status FollowNodes(CommandLoop* loop, Platform* platform, const std::string& parent,
                         std::function<bool(const Node&)> on_node,
                         std::function<void(const absl::Status&)> on_over) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto channel, platform->Channel("scheduler"));
  WatchNodesRequest request;
  request.set_parent(parent);
  FollowCallbacks<WatchNodesRequest, WatchNodesResponse> callbacks;
  callbacks.on_message = [on_node = std::move(on_node)](const WatchNodesResponse& response,
                                                        WatchNodesRequest* again) {
    if (!response.resume_token().empty()) again->set_resume_token(response.resume_token());
    return !response.has_node() || on_node(response.node());
  };
  callbacks.on_over = std::move(on_over);
  // A token that the server no longer honours: begin again with a snapshot.
  callbacks.mend = [](const absl::Status& status, WatchNodesRequest* again) {
    again->clear_resume_token();
    return absl::IsOutOfRange(status);
  };
  FollowStream(loop, std::shared_ptr<NodeService::Stub>(NodeService::NewStub(channel)),
               &NodeService::StubInterface::async_interface::WatchNodes, std::move(request),
               std::move(callbacks));
  return absl::OkStatus();
}

}  // namespace capstan::cli
