#ifndef CAPSTAN_SERVICES_CLUSTER_MANAGER_CORE_HEALTH_CORE_H_
#define CAPSTAN_SERVICES_CLUSTER_MANAGER_CORE_HEALTH_CORE_H_

#include <map>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "libs/store/store.h"
#include "libs/time/clock.h"
#include "proto/capstan/clustermanager/v1/cluster.pb.h"
#include "proto/capstan/scheduler/v1/node.pb.h"
#include "services/cluster_manager/core/records.pb.h"

namespace capstan::cluster_manager {

struct HealthConfig {
  // Owner under which the scheduler keeps our cordons: this service's own SPIFFE id.
  std::string owner;
  // A finding must last this long before the Node is cordoned, and be gone this long before the
  // cordon is lifted: what comes and goes changes nothing.
  absl::Duration raise_after = absl::Seconds(30);
  absl::Duration clear_after = absl::Seconds(60);
  // Between attempts of one cordon or uncordon.
  absl::Duration retry_after = absl::Seconds(5);
};

struct CordonNode {
  std::string node;
  std::string reason;
};
struct UncordonNode {
  std::string node;
};
using Effect = std::variant<CordonNode, UncordonNode>;

// What to store, then what to do.
struct Step {
  std::vector<store::Put> puts;
  std::vector<store::Delete> deletes;
  std::vector<Effect> after;
};

// Verdicts on Nodes, from what the scheduler shows of them. Pure. While the scheduler can't be
// watched nothing is judged: a blind observer must not condemn. Acts by levels: as long as a
// verdict and our cordon differ, the act is asked for again.
class HealthCore {
 public:
  explicit HealthCore(HealthConfig config) : config_(std::move(config)) {}

  // Takes one stored record. Hysteresis counts anew from what is seen next.
  absl::Status Load(const store::KeyValue& kv);

  // The latest state of a Node. A Node of a Cluster not seen before also makes that Cluster, with
  // `uid`.
  Step NodeSeen(const capstan::scheduler::v1::Node& node, const std::string& uid, Now now);
  Step NodeGone(const std::string& name);
  // The snapshot after (re)connecting is complete: Nodes that it did not name are gone.
  Step Synced(Now now);
  // The watch is lost: what was counted is forgotten.
  void WatchLost();
  // A time that NextDeadline named has come, or may have.
  Step Tick(Now now);

  // When Tick has something to do; nothing while no finding is open.
  absl::optional<BootTime> NextDeadline() const;

 private:
  struct NodeState {
    VerdictRecord record;
    // Our cordon, as last seen.
    bool cordoned = false;
    // What the Node shows now.
    std::set<std::string> findings;
    bool seen_in_snapshot = false;
    // When the present findings began, or ended; unset when the verdict agrees with them.
    absl::optional<BootTime> since;
    absl::optional<BootTime> next_attempt;
  };

  void Judge(const std::string& name, NodeState& state, Now now, Step& step);
  void Put(const std::string& name, const NodeState& state, Step& step) const;
  absl::optional<BootTime> Deadline(const NodeState& state) const;

  const HealthConfig config_;
  std::map<std::string, ClusterRecord> clusters_;
  std::map<std::string, NodeState> nodes_;
  bool watching_ = false;
};

// Findings shown by a Node: `NODE_SILENT`, `DISK_FULL`, `PREFLIGHT_FAILED`.
std::set<std::string> Findings(const capstan::scheduler::v1::Node& node);

// Of the records, the newest that this program knows.
inline constexpr int kSchemaVersion = 1;
inline constexpr char kKeyPrefix[] = "/capstan/cluster_manager/v1/";
// `name` is `clusters/{c}`.
std::string ClusterKey(const std::string& name);
// `name` is `clusters/{c}/nodes/{n}`; the verdicts of a Cluster share the prefix VerdictPrefix.
std::string VerdictKey(const std::string& name);
std::string VerdictPrefix(const std::string& cluster);
// The Cluster, `clusters/{c}`, of a Node's name, or that a record's key is about; empty for the key
// of another record.
std::string ClusterOf(const std::string& node);
std::string ClusterOfKey(absl::string_view key);

}  // namespace capstan::cluster_manager

#endif  // CAPSTAN_SERVICES_CLUSTER_MANAGER_CORE_HEALTH_CORE_H_
