// What may be asked of subscriptions. Pure.
#ifndef CAPSTAN_SERVICES_TELEMETRY_CORE_SUBSCRIPTION_RULES_H_
#define CAPSTAN_SERVICES_TELEMETRY_CORE_SUBSCRIPTION_RULES_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "proto/capstan/telemetry/v1/subscription.pb.h"

namespace capstan::telemetry {

// INVALID_ARGUMENT with everything that is wrong. A subscription reads a Stream of its own project
// alone: for that its caller has been authorised.
absl::Status CheckCreateSubscription(const v1::CreateSubscriptionRequest& request);
absl::Status CheckGetSubscription(const v1::GetSubscriptionRequest& request);
absl::Status CheckListSubscriptions(const v1::ListSubscriptionsRequest& request);
absl::Status CheckDeleteSubscription(const v1::DeleteSubscriptionRequest& request);
absl::Status CheckSeekSubscription(const v1::SeekSubscriptionRequest& request);
absl::Status CheckSubscribe(const v1::SubscribeRequest& request);
absl::Status CheckAcknowledge(const v1::AcknowledgeRequest& request);

// `projects/p` and `s` → `projects/p/subscriptions/s`, and the first part of that.
std::string SubscriptionName(absl::string_view parent, absl::string_view id);
std::string ParentOfSubscription(absl::string_view name);

}  // namespace capstan::telemetry

#endif  // CAPSTAN_SERVICES_TELEMETRY_CORE_SUBSCRIPTION_RULES_H_
