// The leases that an etcd has granted, as it tells itself.
#ifndef CAPSTAN_INTEGRATION_CRASH_ETCD_LEASES_H_
#define CAPSTAN_INTEGRATION_CRASH_ETCD_LEASES_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tools/testenv/etcd_server.h"

namespace capstan::integration {

struct EtcdLease {
  int64_t id = 0;
  // Until it runs out.
  absl::Duration left;
  // That it will delete then.
  int keys = 0;
};

// Those that have not run out.
absl::StatusOr<std::vector<EtcdLease>> EtcdLeases(const testenv::EtcdServer& etcd);

}  // namespace capstan::integration

#endif  // CAPSTAN_INTEGRATION_CRASH_ETCD_LEASES_H_
