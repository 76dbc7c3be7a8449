#ifndef CAPSTAN_SERVICES_SCHEDULER_API_QUEUE_SERVICE_H_
#define CAPSTAN_SERVICES_SCHEDULER_API_QUEUE_SERVICE_H_

#include "proto/capstan/scheduler/v1/queue.grpc.pb.h"
#include "services/scheduler/api/api_deps.h"

namespace capstan::scheduler {

class QueueService final : public capstan::scheduler::v1::QueueService::CallbackService {
 public:
  explicit QueueService(const ApiDeps& deps) : deps_(deps) {}

  grpc::ServerUnaryReactor* CreateQueue(grpc::CallbackServerContext* context,
                                        const capstan::scheduler::v1::CreateQueueRequest* request,
                                        capstan::scheduler::v1::Queue* response) override;
  grpc::ServerUnaryReactor* UpdateQueue(grpc::CallbackServerContext* context,
                                        const capstan::scheduler::v1::UpdateQueueRequest* request,
                                        capstan::scheduler::v1::Queue* response) override;
  grpc::ServerUnaryReactor* GetQueue(grpc::CallbackServerContext* context,
                                     const capstan::scheduler::v1::GetQueueRequest* request,
                                     capstan::scheduler::v1::Queue* response) override;
  grpc::ServerUnaryReactor* ListQueues(
      grpc::CallbackServerContext* context,
      const capstan::scheduler::v1::ListQueuesRequest* request,
      capstan::scheduler::v1::ListQueuesResponse* response) override;

 private:
  const ApiDeps deps_;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_API_QUEUE_SERVICE_H_
