// Keys of the scheduler's records. Every key begins with kKeyPrefix; docs/store.md lists them.
#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_KEYS_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_KEYS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace capstan::scheduler {

// What is below belongs to the core; `leader` and `outbox/` beside it to the engine.
inline constexpr char kKeyPrefix[] = "/capstan/scheduler/v1/";

std::string JobSpecKey(absl::string_view uid);
std::string JobStateKey(absl::string_view uid);
std::string GangHeadKey(absl::string_view uid);
// Generations and chunks are fixed-width, so that byte order is number order. With the chunk left
// out, the prefix of all chunks of the generation.
std::string PlacementKey(absl::string_view uid, int64_t generation, int chunk);
std::string PlacementPrefix(absl::string_view uid, int64_t generation);
std::string TaskKeyOf(absl::string_view uid, int64_t generation, int chunk);
std::string TaskPrefix(absl::string_view uid, int64_t generation);
std::string NodeKey(absl::string_view cluster, absl::string_view node);
std::string ClusterKey(absl::string_view cluster);
std::string QueueKey(absl::string_view queue_id);
std::string QueueUsageKey(absl::string_view queue_id);
std::string CapacityOrderKey(absl::string_view order_id);
std::string MaintenanceWindowPrefix();
std::string MaintenanceWindowKey(absl::string_view cluster, absl::string_view window);
// `kind` is `jobs`, `queues`, `capacity_orders` or `maintenance_windows`; `scope` the project, the
// Cluster of a window, or `-`.
std::string RequestKey(absl::string_view kind, absl::string_view scope,
                       absl::string_view request_id);
std::string PinReleaseKey(absl::string_view uid, int64_t generation);

// The parts after kKeyPrefix, split at `/`; empty if the key is not the scheduler's.
std::vector<std::string> KeyParts(absl::string_view key);
// The number in a fixed-width part; -1 if it is none.
int64_t ParseKeyNumber(absl::string_view part);

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_KEYS_H_
