#ifndef CAPSTAN_SERVICES_TELEMETRY_API_SUBSCRIPTION_SERVICE_H_
#define CAPSTAN_SERVICES_TELEMETRY_API_SUBSCRIPTION_SERVICE_H_

#include "libs/auth/access.h"
#include "libs/strand/strand.h"
#include "proto/capstan/telemetry/v1/subscription.grpc.pb.h"
#include "services/telemetry/ports/subscriptions.h"

namespace capstan::telemetry {

// capstan.telemetry.v1.SubscriptionService over the engine.
class SubscriptionServiceHandler final : public v1::SubscriptionService::CallbackService {
 public:
  // All must outlive it; `subscriptions` is used on `strand` only.
  SubscriptionServiceHandler(auth::Access* access, Subscriptions* subscriptions, Strand* strand)
      : access_(access), subscriptions_(subscriptions), strand_(strand) {}

  grpc::ServerUnaryReactor* CreateSubscription(grpc::CallbackServerContext* context,
                                               const v1::CreateSubscriptionRequest* request,
                                               v1::Subscription* response) override;
  grpc::ServerUnaryReactor* GetSubscription(grpc::CallbackServerContext* context,
                                            const v1::GetSubscriptionRequest* request,
                                            v1::Subscription* response) override;
  grpc::ServerUnaryReactor* ListSubscriptions(grpc::CallbackServerContext* context,
                                              const v1::ListSubscriptionsRequest* request,
                                              v1::ListSubscriptionsResponse* response) override;
  grpc::ServerUnaryReactor* DeleteSubscription(grpc::CallbackServerContext* context,
                                               const v1::DeleteSubscriptionRequest* request,
                                               google::protobuf::Empty* response) override;
  grpc::ServerUnaryReactor* SeekSubscription(grpc::CallbackServerContext* context,
                                             const v1::SeekSubscriptionRequest* request,
                                             v1::Subscription* response) override;
  grpc::ServerWriteReactor<v1::SubscribeResponse>* Subscribe(
      grpc::CallbackServerContext* context, const v1::SubscribeRequest* request) override;
  grpc::ServerUnaryReactor* Acknowledge(grpc::CallbackServerContext* context,
                                        const v1::AcknowledgeRequest* request,
                                        v1::AcknowledgeResponse* response) override;

 private:
  auth::Access* const access_;
  Subscriptions* const subscriptions_;
  Strand* const strand_;
};

}  // namespace capstan::telemetry

#endif  // CAPSTAN_SERVICES_TELEMETRY_API_SUBSCRIPTION_SERVICE_H_
