
#include "absl/strings/str_cat.h"
#include "libs/status/status_macros.h"
#include "libs/time/proto_time.h"
#include "proto/capstan/scheduler/v1/node.grpc.pb.h"
#include "tools/capstan/cli/call.h"
#include "tools/capstan/cli/connection.h"
#include "tools/capstan/cli/fleet_commands.h"
#include "tools/capstan/cli/human_format.h"
#include "tools/capstan/cli/list_all.h"
#include "tools/capstan/cli/maintenance_text.h"
#include "tools/capstan/cli/printer.h"

namespace capstan::cli {

using scheduler::v1::CreateMaintenanceWindowRequest;
using scheduler::v1::DeleteMaintenanceWindowRequest;
using scheduler::v1::GetMaintenanceWindowRequest;
using scheduler::v1::ListMaintenanceWindowsRequest;
using scheduler::v1::ListMaintenanceWindowsResponse;
using scheduler::v1::MaintenanceWindow;
using scheduler::v1::NodeService;

absl::Status CreateMaintenance(const MaintenanceOptions& options, Invocation& invocation) {
  CreateMaintenanceWindowRequest request;
  CAPSTAN_ASSIGN_OR_RETURN(*request.mutable_maintenance_window(),
                           WindowOf(options, invocation.clock->Read().wall));
  CAPSTAN_ASSIGN_OR_RETURN(const auto nodes, Connect<NodeService>(invocation, "scheduler"));
  request.set_parent(absl::StrCat("clusters/", LastSegment(options.cluster)));
  request.set_maintenance_window_id(options.id);
  request.set_request_id(invocation.random->Uuid4());
  CAPSTAN_ASSIGN_OR_RETURN(const MaintenanceWindow window,
                           Call(nodes.stub.get(), &NodeService::Stub::CreateMaintenanceWindow,
                                request, Terms(invocation)));
  return PrintResource<MaintenanceWindow>(invocation, window, [&](const MaintenanceWindow& made) {
    return absl::StrCat(made.name(),
                        " created: ", BeginsInWords(made, invocation.clock->Read().wall), ", ",
                        made.node_count(), made.node_count() == 1 ? " Node\n" : " Nodes\n");
  });
}

absl::Status ListMaintenance(const std::string& cluster, Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto nodes, Connect<NodeService>(invocation, "scheduler"));
  ListMaintenanceWindowsRequest request;
  request.set_parent(absl::StrCat("clusters/", LastSegment(cluster)));
  CAPSTAN_ASSIGN_OR_RETURN(
      const auto all,
      ListAll(nodes.stub.get(), &NodeService::Stub::ListMaintenanceWindows, request,
              &ListMaintenanceWindowsResponse::mutable_maintenance_windows, Terms(invocation)));
  const absl::Time now = invocation.clock->Read().wall;
  return PrintList<MaintenanceWindow>(
      invocation, "maintenance_windows", all,
      {{"NAME", [](const MaintenanceWindow& window) { return window.name(); }},
       {"BEGINS", [now](const MaintenanceWindow& window) { return BeginsInWords(window, now); }},
       {"FOR",
        [](const MaintenanceWindow& window) {
          return HumanDuration(ToTime(window.end_time()) - ToTime(window.start_time()));
        }},
       {"NODES", [](const MaintenanceWindow& window) { return absl::StrCat(window.node_count()); }},
       {"JOBS", [](const MaintenanceWindow& window) { return absl::StrCat(window.job_count()); }},
       {"EVICTS", [](const MaintenanceWindow& window) { return window.evict() ? "yes" : "no"; }},
       {"REASON", [](const MaintenanceWindow& window) { return window.reason(); }},
       {"WHICH", NodesInWords, /*wide=*/true},
       {"MADE BY", [](const MaintenanceWindow& window) { return window.creator(); },
        /*wide=*/true}});
}

absl::Status GetMaintenance(const std::string& name, Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto nodes, Connect<NodeService>(invocation, "scheduler"));
  GetMaintenanceWindowRequest request;
  request.set_name(WindowResource(name));
  CAPSTAN_ASSIGN_OR_RETURN(
      const MaintenanceWindow window,
      Call(nodes.stub.get(), &NodeService::Stub::GetMaintenanceWindow, request, Terms(invocation)));
  return PrintResource<MaintenanceWindow>(invocation, window, [&](const MaintenanceWindow& shown) {
    return DescribeWindow(shown, invocation.clock->Read().wall);
  });
}

absl::Status DeleteMaintenance(const std::string& name, Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto nodes, Connect<NodeService>(invocation, "scheduler"));
  DeleteMaintenanceWindowRequest request;
  request.set_name(WindowResource(name));
  CAPSTAN_RETURN_IF_ERROR(Call(nodes.stub.get(), &NodeService::Stub::DeleteMaintenanceWindow,
                               request, Terms(invocation))
                              .status());
  *invocation.out << request.name() << " deleted\n";
  return absl::OkStatus();
}

}  // namespace capstan::cli
