#ifndef CAPSTAN_SERVICES_SCHEDULER_API_NODE_SERVICE_H_
#define CAPSTAN_SERVICES_SCHEDULER_API_NODE_SERVICE_H_

#include "proto/capstan/scheduler/v1/node.grpc.pb.h"
#include "services/scheduler/api/api_deps.h"

namespace capstan::scheduler {

class NodeService final : public capstan::scheduler::v1::NodeService::CallbackService {
 public:
  // `incarnation` of the store, for resume tokens.
  NodeService(const ApiDeps& deps, int64_t incarnation) : deps_(deps), incarnation_(incarnation) {}

  grpc::ServerUnaryReactor* GetNode(grpc::CallbackServerContext* context,
                                    const capstan::scheduler::v1::GetNodeRequest* request,
                                    capstan::scheduler::v1::Node* response) override;
  grpc::ServerUnaryReactor* ListNodes(grpc::CallbackServerContext* context,
                                      const capstan::scheduler::v1::ListNodesRequest* request,
                                      capstan::scheduler::v1::ListNodesResponse* response) override;
  grpc::ServerWriteReactor<capstan::scheduler::v1::WatchNodesResponse>* WatchNodes(
      grpc::CallbackServerContext* context,
      const capstan::scheduler::v1::WatchNodesRequest* request) override;
  grpc::ServerUnaryReactor* CordonNode(grpc::CallbackServerContext* context,
                                       const capstan::scheduler::v1::CordonNodeRequest* request,
                                       capstan::scheduler::v1::Node* response) override;
  grpc::ServerUnaryReactor* UncordonNode(grpc::CallbackServerContext* context,
                                         const capstan::scheduler::v1::UncordonNodeRequest* request,
                                         capstan::scheduler::v1::Node* response) override;
  grpc::ServerUnaryReactor* CreateMaintenanceWindow(
      grpc::CallbackServerContext* context,
      const capstan::scheduler::v1::CreateMaintenanceWindowRequest* request,
      capstan::scheduler::v1::MaintenanceWindow* response) override;
  grpc::ServerUnaryReactor* GetMaintenanceWindow(
      grpc::CallbackServerContext* context,
      const capstan::scheduler::v1::GetMaintenanceWindowRequest* request,
      capstan::scheduler::v1::MaintenanceWindow* response) override;
  grpc::ServerUnaryReactor* ListMaintenanceWindows(
      grpc::CallbackServerContext* context,
      const capstan::scheduler::v1::ListMaintenanceWindowsRequest* request,
      capstan::scheduler::v1::ListMaintenanceWindowsResponse* response) override;
  grpc::ServerUnaryReactor* DeleteMaintenanceWindow(
      grpc::CallbackServerContext* context,
      const capstan::scheduler::v1::DeleteMaintenanceWindowRequest* request,
      capstan::scheduler::v1::DeleteMaintenanceWindowResponse* response) override;
  grpc::ServerUnaryReactor* ConfirmSilence(
      grpc::CallbackServerContext* context,
      const capstan::scheduler::v1::ConfirmSilenceRequest* request,
      capstan::scheduler::v1::ConfirmSilenceResponse* response) override;
  grpc::ServerWriteReactor<capstan::scheduler::v1::WatchDemandResponse>* WatchDemand(
      grpc::CallbackServerContext* context,
      const capstan::scheduler::v1::WatchDemandRequest* request) override;

 private:
  const ApiDeps deps_;
  const int64_t incarnation_;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_API_NODE_SERVICE_H_
