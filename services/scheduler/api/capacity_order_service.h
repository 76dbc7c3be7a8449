#ifndef CAPSTAN_SERVICES_SCHEDULER_API_CAPACITY_ORDER_SERVICE_H_
#define CAPSTAN_SERVICES_SCHEDULER_API_CAPACITY_ORDER_SERVICE_H_

#include "proto/capstan/scheduler/v1/capacity_order.grpc.pb.h"
#include "services/scheduler/api/api_deps.h"

namespace capstan::scheduler {

class CapacityOrderService final
    : public capstan::scheduler::v1::CapacityOrderService::CallbackService {
 public:
  explicit CapacityOrderService(const ApiDeps& deps) : deps_(deps) {}

  grpc::ServerUnaryReactor* CreateCapacityOrder(
      grpc::CallbackServerContext* context,
      const capstan::scheduler::v1::CreateCapacityOrderRequest* request,
      capstan::scheduler::v1::CapacityOrder* response) override;
  grpc::ServerUnaryReactor* GetCapacityOrder(
      grpc::CallbackServerContext* context,
      const capstan::scheduler::v1::GetCapacityOrderRequest* request,
      capstan::scheduler::v1::CapacityOrder* response) override;
  grpc::ServerUnaryReactor* ListCapacityOrders(
      grpc::CallbackServerContext* context,
      const capstan::scheduler::v1::ListCapacityOrdersRequest* request,
      capstan::scheduler::v1::ListCapacityOrdersResponse* response) override;
  grpc::ServerUnaryReactor* DeleteCapacityOrder(
      grpc::CallbackServerContext* context,
      const capstan::scheduler::v1::DeleteCapacityOrderRequest* request,
      capstan::scheduler::v1::DeleteCapacityOrderResponse* response) override;

 private:
  const ApiDeps deps_;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_API_CAPACITY_ORDER_SERVICE_H_
