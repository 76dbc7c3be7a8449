// What the commands on Nodes, Queues and Clusters do.
#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_FLEET_COMMANDS_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_FLEET_COMMANDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "tools/capstan/cli/invocation.h"
#include "tools/capstan/cli/maintenance_text.h"

namespace capstan::cli {

struct ListNodesOptions {
  std::string cluster = "-";
  bool watch = false;
};
absl::Status ListNodes(const ListNodesOptions& options, Invocation& invocation);
absl::Status GetNode(const std::string& name, Invocation& invocation);
// Says that what is silent is really gone; see NodeService.ConfirmSilence.
absl::Status ConfirmSilence(Invocation& invocation);
absl::Status CordonNode(const std::string& name, const std::string& reason, Invocation& invocation);
absl::Status UncordonNode(const std::string& name, Invocation& invocation);

struct ShowDemandOptions {
  std::string cluster = "-";
  bool watch = false;
};
// What waiting gangs need of more Nodes.
absl::Status ShowDemand(const ShowDemandOptions& options, Invocation& invocation);

struct OrderOptions {
  std::string id;
  std::string cluster = "local";
  int nodes = 0;
  // One of the two.
  std::string job;
  std::string demand_class;
  absl::Duration expires_in;
  absl::optional<absl::Duration> expected_in;
  std::string reason;
};
// Says that Nodes were ordered, and for whom; see CapacityOrderService.
absl::Status CreateOrder(const OrderOptions& options, Invocation& invocation);
absl::Status ListOrders(Invocation& invocation);
absl::Status GetOrder(const std::string& name, Invocation& invocation);
absl::Status DeleteOrder(const std::string& name, Invocation& invocation);
absl::Status CreateMaintenance(const MaintenanceOptions& options, Invocation& invocation);
// Those of one Cluster, or of all: `-`.
absl::Status ListMaintenance(const std::string& cluster, Invocation& invocation);
absl::Status GetMaintenance(const std::string& name, Invocation& invocation);
absl::Status DeleteMaintenance(const std::string& name, Invocation& invocation);

struct QueueOptions {
  std::string id;
  // 0: the default, or as it is.
  int64_t weight = 0;
  std::vector<std::string> projects;
  std::string parent;
  // As AddQuotas takes them.
  std::vector<std::string> guarantees;
  std::vector<std::string> borrowing_limits;
  std::vector<std::string> lending_limits;
  // Unset: as the parent's, or as it is.
  absl::optional<absl::Duration> min_runtime;
  absl::optional<absl::Duration> usage_half_life;
  // As ParseRate takes them; empty: none, or as it is.
  std::string submit_rate;
  std::string start_rate;
  // As ParseBudget takes it; empty: as its parent, or as it is.
  std::string disruption_budget;
  absl::optional<bool> allow_non_preemptible;
};
absl::Status CreateQueue(const QueueOptions& options, Invocation& invocation);
// Changes what the options name, and nothing else.
absl::Status UpdateQueue(const QueueOptions& options, Invocation& invocation);
// Sets or lifts a stop: `cordon`, `hold` or `drain`.
absl::Status StopQueue(const std::string& name, const std::string& stop, bool set,
                       Invocation& invocation);
absl::Status ListQueues(Invocation& invocation);
absl::Status GetQueue(const std::string& name, Invocation& invocation);

absl::Status ListClusters(Invocation& invocation);
absl::Status GetCluster(const std::string& name, Invocation& invocation);

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_FLEET_COMMANDS_H_
