#include <algorithm>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/resource/quantity.h"
#include "libs/status/status_macros.h"
#include "libs/time/proto_time.h"
#include "proto/capstan/scheduler/v1/node.grpc.pb.h"
#include "tools/capstan/cli/call.h"
#include "tools/capstan/cli/command_loop.h"
#include "tools/capstan/cli/connection.h"
#include "tools/capstan/cli/fleet_commands.h"
#include "tools/capstan/cli/human_format.h"
#include "tools/capstan/cli/list_all.h"
#include "tools/capstan/cli/maintenance_text.h"
#include "tools/capstan/cli/names.h"
#include "tools/capstan/cli/node_follow.h"
#include "tools/capstan/cli/node_text.h"
#include "tools/capstan/cli/printer.h"

namespace capstan::cli {
namespace {

using scheduler::v1::ConfirmSilenceRequest;
using scheduler::v1::CordonNodeRequest;
using scheduler::v1::GetNodeRequest;
using scheduler::v1::ListNodesRequest;
using scheduler::v1::ListNodesResponse;
using scheduler::v1::Node;
using scheduler::v1::NodeService;
using scheduler::v1::UncordonNodeRequest;
using type::v1::NodeObservation;

std::string Share(const std::string& used, const std::string& all) {
  return absl::StrCat(used, "/", all);
}

bool InMaintenance(const Node& node, absl::Time now) {
  return std::any_of(
      node.maintenance().begin(), node.maintenance().end(), [now](const auto& maintenance) {
        return ToTime(maintenance.start_time()) <= now && now < ToTime(maintenance.end_time());
      });
}

TextTable::Cell StateCell(const Node& node, absl::Time now) {
  std::string text = ShortEnum(Node::State_Name(node.state()), "STATE_");
  Colour colour = node.state() == Node::STATE_ACTIVE ? Colour::kGreen : Colour::kRed;
  if (!node.cordons().empty()) {
    absl::StrAppend(&text, ",CORDONED");
    colour = Colour::kYellow;
  }
  if (InMaintenance(node, now)) {
    absl::StrAppend(&text, ",MAINTENANCE");
    colour = Colour::kYellow;
  }
  return {text, colour};
}

// When the next window begins, or that one lasts.
std::string NextMaintenance(const Node& node, absl::Time now) {
  if (node.maintenance().empty()) return "";
  const auto& next = node.maintenance(0);
  return ToTime(next.start_time()) > now
             ? absl::StrCat("in ", HumanDuration(ToTime(next.start_time()) - now))
             : absl::StrCat("for ", HumanDuration(ToTime(next.end_time()) - now));
}

std::string Limitations(const Node& node) {
  std::vector<std::string> names;
  for (const int limitation : node.limitations()) {
    names.push_back(ShortEnum(
        NodeObservation::Limitation_Name(static_cast<NodeObservation::Limitation>(limitation)),
        "LIMITATION_"));
  }
  return absl::StrJoin(names, ",");
}

std::string CordonOwners(const Node& node) {
  return absl::StrJoin(node.cordons(), ",", [](std::string* out, const scheduler::v1::Cordon& c) {
    absl::StrAppend(out, c.owner());
  });
}

std::string Labels(const Node& node) {
  return absl::StrJoin(
      std::map<std::string, std::string>(node.labels().begin(), node.labels().end()), ",",
      absl::PairFormatter("="));
}

std::vector<Column<Node>> NodeColumns(absl::Time now) {
  return {
      {"NAME", [](const Node& node) { return node.name(); }},
      {"STATE", [now](const Node& node) { return StateCell(node, now); }},
      {"TASKS", [](const Node& node) { return absl::StrCat(node.task_count()); }},
      {"CPU",
       [](const Node& node) {
         return Share(resource::FormatMillis(node.allocated().cpu_millis()),
                      resource::FormatMillis(node.allocatable().cpu_millis()));
       }},
      {"MEMORY",
       [](const Node& node) {
         return Share(HumanBytes(node.allocated().memory_bytes()),
                      HumanBytes(node.allocatable().memory_bytes()));
       }},
      {"ACCELERATORS", AcceleratorsText},
      {"LIMITATIONS",
       [](const Node& node) { return TextTable::Cell(Limitations(node), Colour::kYellow); }},
      {"HEARD", [now](const Node& node) { return HumanAge(ToTime(node.observe_time()), now); }},
      {"HOST", [](const Node& node) { return node.host(); }, /*wide=*/true},
      {"DISK",
       [](const Node& node) {
         return Share(HumanBytes(node.disk_total_bytes() - node.disk_free_bytes()),
                      HumanBytes(node.disk_total_bytes()));
       },
       /*wide=*/true},
      {"CORDONED BY", CordonOwners, /*wide=*/true},
      {"MAINTENANCE", [now](const Node& node) { return NextMaintenance(node, now); },
       /*wide=*/true},
      {"TAINTS", TaintsText, /*wide=*/true},
      {"LABELS", Labels, /*wide=*/true},
  };
}

std::string NodeLine(const Node& node, absl::Time now) {
  std::string line = absl::StrCat(node.name(), " ", StateCell(node, now).text);
  for (const auto& cordon : node.cordons()) {
    absl::StrAppend(&line, ", cordoned by ", cordon.owner(), cordon.reason().empty() ? "" : ": ",
                    cordon.reason());
  }
  return absl::StrCat(WithoutControls(line), "\n");
}

// Everything about a Node on a screen: for `node get`.
std::string DescribeNode(const Node& node, absl::Time now, const Terminal& terminal) {
  std::string out;
  const auto add = [&out](absl::string_view name, const std::string& value) {
    if (!value.empty()) absl::StrAppend(&out, name, WithoutControls(value), "\n");
  };
  add("Name:         ", node.name());
  absl::StrAppend(&out, "State:        ",
                  terminal.Paint(StateCell(node, now).colour, StateCell(node, now).text), "\n");
  add("Host:         ", node.host());
  add("Heard:        ", absl::StrCat(HumanAge(ToTime(node.observe_time()), now), " ago"));
  add("Tasks:        ", absl::StrCat(node.task_count()));
  add("Allocatable:  ", DescribeResources(node.allocatable()));
  add("Allocated:    ", DescribeResources(node.allocated()));
  for (const auto& gpu : node.mig_gpus()) add("MIG GPU:      ", MigGpuText(gpu));
  if (node.disk_total_bytes() > 0) {
    add("Disk free:    ", absl::StrCat(HumanBytes(node.disk_free_bytes()), " of ",
                                       HumanBytes(node.disk_total_bytes())));
  }
  add("Limitations:  ", Limitations(node));
  add("Preflight:    ", node.preflight_message());
  add("Labels:       ", Labels(node));
  add("Taints:       ", TaintsText(node));
  for (const auto& cordon : node.cordons()) {
    add("Cordon:       ",
        absl::StrCat(cordon.owner(), ", ", HumanAge(ToTime(cordon.create_time()), now), " ago",
                     cordon.reason().empty() ? "" : ": ", cordon.reason()));
  }
  for (const auto& maintenance : node.maintenance()) {
    add("Maintenance:  ", MaintenanceInWords(maintenance));
  }
  return out;
}

absl::Status PrintNode(const Invocation& invocation, const Node& node) {
  return PrintResource<Node>(invocation, node, [&invocation](const Node& shown) {
    return NodeLine(shown, invocation.clock->Read().wall);
  });
}

absl::Status WatchNodes(const Connection<NodeService>& nodes, const std::string& parent,
                        Invocation& invocation) {
  CommandLoop loop(invocation.clock, invocation.random);
  return loop.Run([&] {
    const absl::Status begun = FollowNodes(
        &loop, nodes.platform.get(), parent,
        [&](const Node& node) {
          if (invocation.output.format == OutputFormat::kTable) {
            *invocation.out << NodeLine(node, invocation.clock->Read().wall) << std::flush;
          } else {
            *invocation.out << RenderChange(invocation, node) << std::endl;
          }
          return true;
        },
        [&](const absl::Status& over) { loop.Done(over); });
    if (!begun.ok()) loop.Done(begun);
  });
}

}  // namespace

absl::Status ListNodes(const ListNodesOptions& options, Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto nodes, Connect<NodeService>(invocation, "scheduler"));
  const std::string parent = absl::StrCat("clusters/", LastSegment(options.cluster));
  if (options.watch) return WatchNodes(nodes, parent, invocation);
  ListNodesRequest request;
  request.set_parent(parent);
  CAPSTAN_ASSIGN_OR_RETURN(const auto all,
                           ListAll(nodes.stub.get(), &NodeService::Stub::ListNodes, request,
                                   &ListNodesResponse::mutable_nodes, Terms(invocation)));
  return PrintList<Node>(invocation, "nodes", all, NodeColumns(invocation.clock->Read().wall));
}

absl::Status GetNode(const std::string& name, Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto nodes, Connect<NodeService>(invocation, "scheduler"));
  GetNodeRequest request;
  request.set_name(NodeResource(name));
  CAPSTAN_ASSIGN_OR_RETURN(const Node node, Call(nodes.stub.get(), &NodeService::Stub::GetNode,
                                                 request, Terms(invocation)));
  return PrintResource<Node>(invocation, node, [&](const Node& shown) {
    return DescribeNode(shown, invocation.clock->Read().wall, invocation.out_terminal);
  });
}

absl::Status ConfirmSilence(Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto nodes, Connect<NodeService>(invocation, "scheduler"));
  CAPSTAN_RETURN_IF_ERROR(Call(nodes.stub.get(), &NodeService::Stub::ConfirmSilence,
                               ConfirmSilenceRequest(), Terms(invocation))
                              .status());
  *invocation.out << "confirmed: what is silent is gone; its gangs may run elsewhere\n";
  return absl::OkStatus();
}

absl::Status CordonNode(const std::string& name, const std::string& reason,
                        Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto nodes, Connect<NodeService>(invocation, "scheduler"));
  CordonNodeRequest request;
  request.set_name(NodeResource(name));
  request.set_reason(reason);
  CAPSTAN_ASSIGN_OR_RETURN(const Node node, Call(nodes.stub.get(), &NodeService::Stub::CordonNode,
                                                 request, Terms(invocation)));
  return PrintNode(invocation, node);
}

absl::Status UncordonNode(const std::string& name, Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto nodes, Connect<NodeService>(invocation, "scheduler"));
  UncordonNodeRequest request;
  request.set_name(NodeResource(name));
  CAPSTAN_ASSIGN_OR_RETURN(const Node node, Call(nodes.stub.get(), &NodeService::Stub::UncordonNode,
                                                 request, Terms(invocation)));
  return PrintNode(invocation, node);
}

}  // namespace capstan::cli
