#include "services/scheduler/core/keys.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace capstan::scheduler {

std::string JobSpecKey(absl::string_view uid) {
  return absl::StrCat(kKeyPrefix, "jobs/spec/", uid);
}

std::string JobStateKey(absl::string_view uid) {
  return absl::StrCat(kKeyPrefix, "jobs/state/", uid);
}

std::string GangHeadKey(absl::string_view uid) {
  return absl::StrCat(kKeyPrefix, "gangs/head/", uid);
}

std::string PlacementPrefix(absl::string_view uid, int64_t generation) {
  return absl::StrFormat("%sgangs/placement/%s/%012d/", kKeyPrefix, uid, generation);
}

std::string PlacementKey(absl::string_view uid, int64_t generation, int chunk) {
  return absl::StrFormat("%s%06d", PlacementPrefix(uid, generation), chunk);
}

std::string TaskPrefix(absl::string_view uid, int64_t generation) {
  return absl::StrFormat("%stasks/%s/%012d/", kKeyPrefix, uid, generation);
}

std::string TaskKeyOf(absl::string_view uid, int64_t generation, int chunk) {
  return absl::StrFormat("%s%06d", TaskPrefix(uid, generation), chunk);
}

std::string NodeKey(absl::string_view cluster, absl::string_view node) {
  return absl::StrCat(kKeyPrefix, "nodes/", cluster, "/", node);
}

std::string ClusterKey(absl::string_view cluster) {
  return absl::StrCat(kKeyPrefix, "clusters/", cluster);
}

std::string QueueKey(absl::string_view queue_id) {
  return absl::StrCat(kKeyPrefix, "queues/", queue_id);
}

std::string QueueUsageKey(absl::string_view queue_id) {
  return absl::StrCat(kKeyPrefix, "queue_usage/", queue_id);
}

std::string CapacityOrderKey(absl::string_view order_id) {
  return absl::StrCat(kKeyPrefix, "capacity_orders/", order_id);
}

std::string MaintenanceWindowPrefix() { return absl::StrCat(kKeyPrefix, "maintenance_windows/"); }

std::string MaintenanceWindowKey(absl::string_view cluster, absl::string_view window) {
  return absl::StrCat(MaintenanceWindowPrefix(), cluster, "/", window);
}

std::string RequestKey(absl::string_view kind, absl::string_view scope,
                       absl::string_view request_id) {
  return absl::StrCat(kKeyPrefix, "requests/", kind, "/", scope, "/", request_id);
}

std::string PinReleaseKey(absl::string_view uid, int64_t generation) {
  return absl::StrFormat("%spin_releases/%s/%012d", kKeyPrefix, uid, generation);
}

std::vector<std::string> KeyParts(absl::string_view key) {
  if (!absl::ConsumePrefix(&key, kKeyPrefix)) return {};
  return absl::StrSplit(key, '/');
}

int64_t ParseKeyNumber(absl::string_view part) {
  int64_t number = -1;
  return absl::SimpleAtoi(part, &number) && number >= 0 ? number : -1;
}

}  // namespace capstan::scheduler
