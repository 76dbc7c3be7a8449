// Maintenance windows as people write and read them.
#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_MAINTENANCE_TEXT_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_MAINTENANCE_TEXT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/capstan/scheduler/v1/maintenance.pb.h"
#include "proto/capstan/scheduler/v1/node.pb.h"

namespace capstan::cli {

struct MaintenanceOptions {
  std::string id;
  std::string cluster = "local";
  std::vector<std::string> nodes;
  // `key=value`.
  std::vector<std::string> labels;
  bool all_nodes = false;
  // As ParseWhen takes them; an empty start is now.
  std::string start;
  std::string end;
  // Instead of the end; 0: not given.
  absl::Duration length;
  bool evict = false;
  std::string reason;
};

// What the options say. INVALID_ARGUMENT with reason INVALID_MAINTENANCE if a time or a label is
// none, or if they do not say when it ends, once.
absl::StatusOr<scheduler::v1::MaintenanceWindow> WindowOf(const MaintenanceOptions& options,
                                                          absl::Time now);

// `2026-03-01T22:00:00Z`, or `2h`: so long from now. INVALID_ARGUMENT likewise.
absl::StatusOr<absl::Time> ParseWhen(const std::string& text, absl::Time now);

// `disks` → `clusters/local/maintenanceWindows/disks`; `c/w`; whole names stay.
std::string WindowResource(const std::string& name);

// `in 2h`, `since 5m`, `over`.
std::string BeginsInWords(const scheduler::v1::MaintenanceWindow& window, absl::Time now);

// `all`, or what Nodes it names and which labels they have.
std::string NodesInWords(const scheduler::v1::MaintenanceWindow& window);

// Everything about a window on a screen.
std::string DescribeWindow(const scheduler::v1::MaintenanceWindow& window, absl::Time now);

// `2026-03-01T22:00:00Z to 2026-03-02T06:00:00Z: clusters/c/maintenanceWindows/w`.
std::string MaintenanceInWords(const scheduler::v1::Maintenance& maintenance);

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_MAINTENANCE_TEXT_H_
