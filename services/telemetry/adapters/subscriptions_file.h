#ifndef CAPSTAN_SERVICES_TELEMETRY_ADAPTERS_SUBSCRIPTIONS_FILE_H_
#define CAPSTAN_SERVICES_TELEMETRY_ADAPTERS_SUBSCRIPTIONS_FILE_H_

#include <vector>

#include "absl/status/statusor.h"
#include "libs/store/sqlite_connection.h"
#include "libs/store/sqlite_copy.h"
#include "services/telemetry/core/records.pb.h"

namespace capstan::telemetry {

// What SqliteSubscriptionStore keeps, for it and for backup, restore and check. A restored
// subscription has its cursor of the backup, and a reader generation a million above: whoever read
// by it between backup and restore acknowledges nothing any more.
//
//   subscriptions(name, record)   a core::SubscriptionRecord each
store::SqliteFileKind SubscriptionsFile();

// By name. DATA_LOSS with SUBSCRIPTION_DAMAGED, with the name.
absl::StatusOr<std::vector<core::SubscriptionRecord>> ReadSubscriptions(
    store::SqliteConnection* connection);

}  // namespace capstan::telemetry

#endif  // CAPSTAN_SERVICES_TELEMETRY_ADAPTERS_SUBSCRIPTIONS_FILE_H_
