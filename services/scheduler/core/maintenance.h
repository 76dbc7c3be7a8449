// Maintenance windows: which Nodes they concern, and when those take nothing.
#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_MAINTENANCE_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_MAINTENANCE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/status/error.h"
#include "proto/capstan/scheduler/v1/maintenance.pb.h"
#include "services/scheduler/core/model.h"
#include "services/scheduler/core/placer.h"
#include "services/scheduler/core/usage.h"

namespace capstan::scheduler {

// Each may change when a Job can start, so that a round may look at each.
inline constexpr size_t kMaxMaintenanceWindows = 128;
inline constexpr int kMaxMaintenanceNodes = 500;
inline constexpr int kMaxMaintenanceLabels = 16;
inline constexpr size_t kMaxMaintenanceReason = 256;
inline constexpr absl::Duration kMaxMaintenanceLength = absl::Hours(24 * 31);
inline constexpr absl::Duration kMaxMaintenanceAhead = absl::Hours(24 * 366);

// Adds all that is wrong with the form of a window to be made in the Cluster.
void ValidateMaintenanceWindow(absl::string_view cluster, absl::string_view id,
                               const capstan::scheduler::v1::MaintenanceWindow& window,
                               status::FieldErrors* errors);
// The same of what depends on the model and the time; `window` has its start_time.
absl::Status CheckMaintenanceWindow(const Model& model, absl::string_view cluster,
                                    const capstan::scheduler::v1::MaintenanceWindow& window,
                                    absl::Time now);

// Those that concern the Node and are not over, by their beginning.
std::vector<const capstan::scheduler::v1::MaintenanceWindow*> WindowsOf(const Model& model,
                                                                        const NodeId& id,
                                                                        const rec::NodeRecord& node,
                                                                        absl::Time now);
// When it takes nothing because of them, from now.
std::vector<Closure> ClosuresOf(
    const std::vector<const capstan::scheduler::v1::MaintenanceWindow*>& windows, absl::Time now);
// In how long what runs there is stopped, at the earliest; infinite: never.
absl::Duration EvictsIn(
    const std::vector<const capstan::scheduler::v1::MaintenanceWindow*>& windows, absl::Time now);

// Nodes that a window of the Cluster concerns now.
std::vector<NodeId> NodesOf(const Model& model, const std::string& cluster,
                            const capstan::scheduler::v1::MaintenanceWindow& window);

capstan::scheduler::v1::MaintenanceWindow RenderMaintenanceWindow(
    const Model& model, const NodeUsage& usage, const std::string& cluster,
    capstan::scheduler::v1::MaintenanceWindow window);

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_MAINTENANCE_H_
