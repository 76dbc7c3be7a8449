#ifndef CAPSTAN_SERVICES_CLUSTER_MANAGER_ADAPTERS_SCHEDULER_NODES_H_
#define CAPSTAN_SERVICES_CLUSTER_MANAGER_ADAPTERS_SCHEDULER_NODES_H_

#include <memory>
#include <string>

#include "grpcpp/channel.h"
#include "libs/log/log.h"
#include "libs/random/random.h"
#include "libs/rpc/backoff.h"
#include "libs/rpc/client_stream.h"
#include "libs/strand/strand.h"
#include "proto/capstan/scheduler/v1/node.grpc.pb.h"
#include "services/cluster_manager/ports/node_registry.h"

namespace capstan::cluster_manager {

// NodeRegistry over the scheduler's NodeService. To be destroyed on its strand, or after the strand
// has stopped.
class SchedulerNodes final : public NodeRegistry {
 public:
  // `strand` and `logger` must outlive it.
  SchedulerNodes(const std::shared_ptr<grpc::Channel>& channel, Strand* strand, Random random,
                 log::Logger* logger);
  ~SchedulerNodes() override;

  void Watch(Listener listener) override;
  void Cordon(const std::string& node, const std::string& reason,
              absl::AnyInvocable<void(absl::Status)> done) override;
  void Uncordon(const std::string& node, absl::AnyInvocable<void(absl::Status)> done) override;

 private:
  using Reader = rpc::StreamReader<capstan::scheduler::v1::WatchNodesRequest,
                                   capstan::scheduler::v1::WatchNodesResponse>;

  void Connect();
  void Took(const capstan::scheduler::v1::WatchNodesResponse& response);

  const std::unique_ptr<capstan::scheduler::v1::NodeService::Stub> stub_;
  Strand* const strand_;
  Random random_;
  log::Logger* const logger_;
  Listener listener_;
  rpc::Reconnect reconnect_;
  std::shared_ptr<Reader> reader_;
  // Expires with this; callbacks hold it weakly.
  const std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace capstan::cluster_manager

#endif  // CAPSTAN_SERVICES_CLUSTER_MANAGER_ADAPTERS_SCHEDULER_NODES_H_
