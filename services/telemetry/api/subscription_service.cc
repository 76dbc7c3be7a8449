#include "services/telemetry/api/subscription_service.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "libs/rpc/finish.h"
#include "libs/rpc/server_stream.h"
#include "libs/rpc/unary.h"
#include "services/telemetry/api/writer_sink.h"
#include "services/telemetry/core/subscription_rules.h"

namespace capstan::telemetry {

grpc::ServerUnaryReactor* SubscriptionServiceHandler::CreateSubscription(
    grpc::CallbackServerContext* context, const v1::CreateSubscriptionRequest* request,
    v1::Subscription* response) {
  return rpc::HandleUnary(
      context, access_, "/capstan.telemetry.v1.SubscriptionService/CreateSubscription", request,
      response, CheckCreateSubscription,
      [this](const rpc::Call& call, const v1::CreateSubscriptionRequest& request,
             v1::Subscription* response, rpc::Finish finish) {
        strand_->Post([this, &request, principal = call.caller.Name(),
                       done = rpc::RespondWith(response, std::move(finish))]() mutable {
          subscriptions_->Create(request, principal, std::move(done));
        });
      });
}

grpc::ServerUnaryReactor* SubscriptionServiceHandler::GetSubscription(
    grpc::CallbackServerContext* context, const v1::GetSubscriptionRequest* request,
    v1::Subscription* response) {
  return rpc::HandleUnary(
      context, access_, "/capstan.telemetry.v1.SubscriptionService/GetSubscription", request,
      response, CheckGetSubscription,
      [this](const rpc::Call&, const v1::GetSubscriptionRequest& request,
             v1::Subscription* response, rpc::Finish finish) {
        strand_->Post(
            [this, &request, done = rpc::RespondWith(response, std::move(finish))]() mutable {
              subscriptions_->Get(request.name(), std::move(done));
            });
      });
}

grpc::ServerUnaryReactor* SubscriptionServiceHandler::ListSubscriptions(
    grpc::CallbackServerContext* context, const v1::ListSubscriptionsRequest* request,
    v1::ListSubscriptionsResponse* response) {
  return rpc::HandleUnary(
      context, access_, "/capstan.telemetry.v1.SubscriptionService/ListSubscriptions", request,
      response, CheckListSubscriptions,
      [this](const rpc::Call&, const v1::ListSubscriptionsRequest& request,
             v1::ListSubscriptionsResponse* response, rpc::Finish finish) {
        strand_->Post([this, &request, response, finish = std::move(finish)]() mutable {
          for (v1::Subscription& one : subscriptions_->List(request.parent())) {
            *response->add_subscriptions() = std::move(one);
          }
          finish(absl::OkStatus());
        });
      });
}

grpc::ServerUnaryReactor* SubscriptionServiceHandler::DeleteSubscription(
    grpc::CallbackServerContext* context, const v1::DeleteSubscriptionRequest* request,
    google::protobuf::Empty* response) {
  return rpc::HandleUnary(
      context, access_, "/capstan.telemetry.v1.SubscriptionService/DeleteSubscription", request,
      response, CheckDeleteSubscription,
      [this](const rpc::Call& call, const v1::DeleteSubscriptionRequest& request,
             google::protobuf::Empty*, rpc::Finish finish) {
        strand_->Post(
            [this, &request, principal = call.caller.Name(), finish = std::move(finish)]() mutable {
              subscriptions_->Delete(request.name(), principal, std::move(finish));
            });
      });
}

grpc::ServerUnaryReactor* SubscriptionServiceHandler::SeekSubscription(
    grpc::CallbackServerContext* context, const v1::SeekSubscriptionRequest* request,
    v1::Subscription* response) {
  return rpc::HandleUnary(
      context, access_, "/capstan.telemetry.v1.SubscriptionService/SeekSubscription", request,
      response, CheckSeekSubscription,
      [this](const rpc::Call& call, const v1::SeekSubscriptionRequest& request,
             v1::Subscription* response, rpc::Finish finish) {
        strand_->Post([this, &request, principal = call.caller.Name(),
                       done = rpc::RespondWith(response, std::move(finish))]() mutable {
          subscriptions_->Seek(request, principal, std::move(done));
        });
      });
}

grpc::ServerWriteReactor<v1::SubscribeResponse>* SubscriptionServiceHandler::Subscribe(
    grpc::CallbackServerContext* context, const v1::SubscribeRequest* request) {
  return rpc::HandleServerStream<v1::SubscribeResponse>(
      context, access_, "/capstan.telemetry.v1.SubscriptionService/Subscribe", request,
      CheckSubscribe,
      [this](std::shared_ptr<rpc::ServerStreamWriter<v1::SubscribeResponse>> writer,
             const v1::SubscribeRequest& request) {
        auto sink = std::make_unique<WriterSink<v1::SubscribeResponse>>(std::move(writer), strand_);
        strand_->Post(
            [this, request = v1::SubscribeRequest(request), sink = std::move(sink)]() mutable {
              subscriptions_->Subscribe(request, std::move(sink));
            });
      });
}

grpc::ServerUnaryReactor* SubscriptionServiceHandler::Acknowledge(
    grpc::CallbackServerContext* context, const v1::AcknowledgeRequest* request,
    v1::AcknowledgeResponse* response) {
  return rpc::HandleUnary(
      context, access_, "/capstan.telemetry.v1.SubscriptionService/Acknowledge", request, response,
      CheckAcknowledge,
      [this](const rpc::Call&, const v1::AcknowledgeRequest& request,
             v1::AcknowledgeResponse* response, rpc::Finish finish) {
        strand_->Post(
            [this, &request, done = rpc::RespondWith(response, std::move(finish))]() mutable {
              subscriptions_->Acknowledge(request, std::move(done));
            });
      });
}

}  // namespace capstan::telemetry
