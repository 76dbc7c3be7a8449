#ifndef CAPSTAN_SERVICES_TELEMETRY_PORTS_SUBSCRIPTION_STORE_H_
#define CAPSTAN_SERVICES_TELEMETRY_PORTS_SUBSCRIPTION_STORE_H_

#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/telemetry/core/records.pb.h"

namespace capstan::telemetry {

// Where subscriptions are kept. Calls take effect in their order and are answered in it, each once
// what it changed is on disk: OK outlives kill -9 and a power cut. After an error nothing was
// changed, as far as the caller may rely on it; NO_SPACE if the disk is full. Calls may come from
// any thread; answers come on any, and are destroyed unused if the store is closed before.
class SubscriptionStore {
 public:
  using Done = absl::AnyInvocable<void(absl::Status)>;

  virtual ~SubscriptionStore() = default;

  // All there are, by name. Blocks: for the start, before anything else is called.
  virtual absl::StatusOr<std::vector<core::SubscriptionRecord>> Load() = 0;
  // Adds one, or replaces the one of the same name as a whole.
  virtual void Put(core::SubscriptionRecord record, Done done) = 0;
  // OK also if there is none.
  virtual void Remove(std::string name, Done done) = 0;
};

}  // namespace capstan::telemetry

#endif  // CAPSTAN_SERVICES_TELEMETRY_PORTS_SUBSCRIPTION_STORE_H_
