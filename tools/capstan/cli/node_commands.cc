#include <map>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/resource/quantity.h"
#include "libs/status/status_macros.h"
#include "libs/time/proto_time.h"
#include "proto/capstan/scheduler/v1/node.grpc.pb.h"
#include "tools/capstan/cli/call.h"
#include "tools/capstan/cli/command_loop.h"
#include "tools/capstan/cli/fleet_commands.h"
#include "tools/capstan/cli/human_format.h"
#include "tools/capstan/cli/names.h"
#include "tools/capstan/cli/node_follow.h"
#include "tools/capstan/cli/platform.h"
#include "tools/capstan/cli/printer.h"

namespace capstan::cli {
namespace {

using scheduler::v1::CordonNodeRequest;
using scheduler::v1::ListNodesRequest;
using scheduler::v1::Node;
using scheduler::v1::NodeService;
using scheduler::v1::UncordonNodeRequest;
using type::v1::NodeObservation;

struct Nodes {
  std::unique_ptr<Platform> platform;
  std::unique_ptr<NodeService::Stub> stub;
};

absl::StatusOr<Nodes> Connect(const Invocation& invocation) {
  Nodes nodes;
  CAPSTAN_ASSIGN_OR_RETURN(nodes.platform, Platform::Open(invocation));
  CAPSTAN_ASSIGN_OR_RETURN(const auto channel, nodes.platform->Channel("scheduler"));
  nodes.stub = NodeService::NewStub(channel);
  return nodes;
}

std::string Share(const std::string& used, const std::string& all) {
  return absl::StrCat(used, "/", all);
}

TextTable::Cell StateCell(const Node& node) {
  std::string text = ShortEnum(Node::State_Name(node.state()), "STATE_");
  Colour colour = node.state() == Node::STATE_ACTIVE ? Colour::kGreen : Colour::kRed;
  if (!node.cordons().empty()) {
    absl::StrAppend(&text, ",CORDONED");
    colour = Colour::kYellow;
  }
  return {text, colour};
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

std::string Accelerators(const Node& node) {
  std::vector<std::string> parts;
  for (const auto& [name, count] : std::map<std::string, int64_t>(
           node.allocatable().accelerators().begin(), node.allocatable().accelerators().end())) {
    parts.push_back(absl::StrCat(name, "=", count));
  }
  return absl::StrJoin(parts, ",");
}

std::vector<Column<Node>> NodeColumns(absl::Time now) {
  return {
      {"NAME", [](const Node& node) { return node.name(); }},
      {"STATE", StateCell},
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
      {"ACCELERATORS", Accelerators},
      {"LIMITATIONS",
       [](const Node& node) { return TextTable::Cell(Limitations(node), Colour::kYellow); }},
      {"HEARD", [now](const Node& node) { return HumanAge(ToTime(node.observe_time()), now); }},
  };
}

void PrintNode(const Invocation& invocation, const Node& node) {
  PrintResource<Node>(invocation, node, [](const Node& shown) {
    std::string line = absl::StrCat(shown.name(), " ", StateCell(shown).text);
    for (const auto& cordon : shown.cordons()) {
      absl::StrAppend(&line, ", cordoned by ", cordon.owner(), cordon.reason().empty() ? "" : ": ",
                      cordon.reason());
    }
    return absl::StrCat(WithoutControls(line), "\n");
  });
}

absl::Status WatchNodes(const Nodes& nodes, const std::string& parent, Invocation& invocation) {
  CommandLoop loop(invocation.clock, invocation.random);
  return loop.Run([&] {
    const absl::Status begun = FollowNodes(
        &loop, nodes.platform.get(), parent,
        [&](const Node& node) {
          PrintNode(invocation, node);
          invocation.out->flush();
          return true;
        },
        [&](const absl::Status& over) { loop.Done(over); });
    if (!begun.ok()) loop.Done(begun);
  });
}

}  // namespace

absl::Status ListNodes(const ListNodesOptions& options, Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const Nodes nodes, Connect(invocation));
  const std::string parent = absl::StrCat("clusters/", LastSegment(options.cluster));
  if (options.watch) return WatchNodes(nodes, parent, invocation);
  ListNodesRequest request;
  request.set_parent(parent);
  std::vector<Node> all;
  do {
    CAPSTAN_ASSIGN_OR_RETURN(auto page, Call(nodes.stub.get(), &NodeService::Stub::ListNodes,
                                             request, Terms(invocation)));
    for (Node& node : *page.mutable_nodes()) all.push_back(std::move(node));
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  PrintList<Node>(invocation, "nodes", all, NodeColumns(invocation.clock->Read().wall));
  return absl::OkStatus();
}

absl::Status CordonNode(const std::string& name, const std::string& reason,
                        Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const Nodes nodes, Connect(invocation));
  CordonNodeRequest request;
  request.set_name(NodeResource(name));
  request.set_reason(reason);
  CAPSTAN_ASSIGN_OR_RETURN(const Node node, Call(nodes.stub.get(), &NodeService::Stub::CordonNode,
                                                 request, Terms(invocation)));
  PrintNode(invocation, node);
  return absl::OkStatus();
}

absl::Status UncordonNode(const std::string& name, Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const Nodes nodes, Connect(invocation));
  UncordonNodeRequest request;
  request.set_name(NodeResource(name));
  CAPSTAN_ASSIGN_OR_RETURN(const Node node, Call(nodes.stub.get(), &NodeService::Stub::UncordonNode,
                                                 request, Terms(invocation)));
  PrintNode(invocation, node);
  return absl::OkStatus();
}

}  // namespace capstan::cli
