#ifndef CAPSTAN_SERVICES_TELEMETRY_PORTS_SUBSCRIPTIONS_H_
#define CAPSTAN_SERVICES_TELEMETRY_PORTS_SUBSCRIPTIONS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/capstan/telemetry/v1/subscription.pb.h"
#include "services/telemetry/ports/response_sink.h"

namespace capstan::telemetry {

// Where the records go that one reader of a subscription gets.
using SubscriptionSink = ResponseSink<v1::SubscribeResponse>;

// What the handlers ask about subscriptions, on the strand; requests have passed
// core/subscription_rules.h. Errors are those of the service's methods, and RESOURCE_EXHAUSTED with
// SUBSCRIPTION_BUSY if too many requests wait for one subscription. Every answer is of what is on
// disk. `principal` is who acts, for the audit trail: without a record there is no act.
class Subscriptions {
 public:
  template <typename T>
  using Done = absl::AnyInvocable<void(absl::StatusOr<T>)>;

  virtual ~Subscriptions() = default;

  virtual void Create(const v1::CreateSubscriptionRequest& request, const std::string& principal,
                      Done<v1::Subscription> done) = 0;
  virtual void Get(const std::string& name, Done<v1::Subscription> done) = 0;
  virtual std::vector<v1::Subscription> List(const std::string& parent) = 0;
  virtual void Delete(const std::string& name, const std::string& principal,
                      absl::AnyInvocable<void(absl::Status)> done) = 0;
  virtual void Seek(const v1::SeekSubscriptionRequest& request, const std::string& principal,
                    Done<v1::Subscription> done) = 0;
  // Serves a reader until its end, until it goes or is replaced, or the service stops.
  virtual void Subscribe(const v1::SubscribeRequest& request,
                         std::unique_ptr<SubscriptionSink> sink) = 0;
  virtual void Acknowledge(const v1::AcknowledgeRequest& request,
                           Done<v1::AcknowledgeResponse> done) = 0;
};

}  // namespace capstan::telemetry

#endif  // CAPSTAN_SERVICES_TELEMETRY_PORTS_SUBSCRIPTIONS_H_
