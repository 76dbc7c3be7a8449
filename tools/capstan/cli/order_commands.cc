#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libs/status/status_macros.h"
#include "libs/time/proto_time.h"
#include "proto/capstan/scheduler/v1/capacity_order.grpc.pb.h"
#include "tools/capstan/cli/call.h"
#include "tools/capstan/cli/connection.h"
#include "tools/capstan/cli/fleet_commands.h"
#include "tools/capstan/cli/human_format.h"
#include "tools/capstan/cli/list_all.h"
#include "tools/capstan/cli/names.h"
#include "tools/capstan/cli/printer.h"

namespace capstan::cli {
namespace {

using scheduler::v1::CapacityOrder;
using scheduler::v1::CapacityOrderService;
using scheduler::v1::CreateCapacityOrderRequest;
using scheduler::v1::DeleteCapacityOrderRequest;
using scheduler::v1::GetCapacityOrderRequest;
using scheduler::v1::ListCapacityOrdersRequest;
using scheduler::v1::ListCapacityOrdersResponse;

std::string OrderResource(const std::string& name) {
  return absl::StrCat("capacityOrders/", absl::StripPrefix(name, "capacityOrders/"));
}

std::string StateInWords(const CapacityOrder& order) {
  return ShortEnum(CapacityOrder::State_Name(order.state()), "STATE_");
}

std::string ForInWords(const CapacityOrder& order) {
  return order.job().empty() ? absl::StrCat("class ", order.demand_class()) : order.job();
}

std::string NodesCome(const CapacityOrder& order) {
  return absl::StrCat(order.nodes_come(), "/", order.nodes());
}

std::string DescribeOrder(const CapacityOrder& order, absl::Time now) {
  std::string out;
  const auto add = [&out](absl::string_view name, const std::string& value) {
    if (!value.empty()) absl::StrAppend(&out, name, WithoutControls(value), "\n");
  };
  add("Name:      ", order.name());
  add("State:     ", StateInWords(order));
  add("Cluster:   ", order.cluster());
  add("Nodes:     ", absl::StrCat(order.nodes_come(), " of ", order.nodes(), " have come"));
  add("For:       ", ForInWords(order));
  add("Nominee:   ", order.nominee());
  if (order.has_expected_time()) {
    add("Expected:  ", absl::StrCat("in ", HumanAge(now, ToTime(order.expected_time()))));
  }
  add("Expires:   ", absl::StrCat("in ", HumanAge(now, ToTime(order.expire_time()))));
  add("Reason:    ", order.reason());
  add("Ordered:   ", absl::StrCat("by ", order.creator(), ", ",
                                  HumanAge(ToTime(order.create_time()), now), " ago"));
  return out;
}

}  // namespace

absl::Status CreateOrder(const OrderOptions& options, Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto orders,
                           Connect<CapacityOrderService>(invocation, "scheduler"));
  const absl::Time now = invocation.clock->Read().wall;
  CreateCapacityOrderRequest request;
  request.set_order_id(options.id);
  request.set_request_id(invocation.random->Uuid4());
  CapacityOrder& order = *request.mutable_order();
  order.set_cluster(absl::StrCat("clusters/", LastSegment(options.cluster)));
  order.set_nodes(options.nodes);
  if (!options.job.empty()) order.set_job(InProject(invocation.project, "jobs", options.job));
  order.set_demand_class(options.demand_class);
  *order.mutable_expire_time() = ToProto(now + options.expires_in);
  if (options.expected_in) *order.mutable_expected_time() = ToProto(now + *options.expected_in);
  order.set_reason(options.reason);
  CAPSTAN_ASSIGN_OR_RETURN(const CapacityOrder made,
                           Call(orders.stub.get(), &CapacityOrderService::Stub::CreateCapacityOrder,
                                request, Terms(invocation)));
  return PrintResource<CapacityOrder>(invocation, made, [](const CapacityOrder& shown) {
    return WithoutControls(
               absl::StrCat(shown.name(), " created, ",
                            shown.nominee().empty() ? "nobody waits for it yet"
                                                    : absl::StrCat("kept for ", shown.nominee()),
                            "; label its Nodes capstan.dev/order=", LastSegment(shown.name()))) +
           "\n";
  });
}

absl::Status ListOrders(Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto orders,
                           Connect<CapacityOrderService>(invocation, "scheduler"));
  ListCapacityOrdersRequest request;
  CAPSTAN_ASSIGN_OR_RETURN(
      const auto all,
      ListAll(orders.stub.get(), &CapacityOrderService::Stub::ListCapacityOrders, request,
              &ListCapacityOrdersResponse::mutable_orders, Terms(invocation)));
  const absl::Time now = invocation.clock->Read().wall;
  return PrintList<CapacityOrder>(
      invocation, "orders", all,
      {{"NAME", [](const CapacityOrder& order) { return LastSegment(order.name()); }},
       {"STATE", StateInWords},
       {"CLUSTER", [](const CapacityOrder& order) { return LastSegment(order.cluster()); }},
       {"NODES", NodesCome},
       {"FOR", ForInWords},
       {"NOMINEE", [](const CapacityOrder& order) { return order.nominee(); }},
       {"EXPIRES IN",
        [now](const CapacityOrder& order) { return HumanAge(now, ToTime(order.expire_time())); }},
       {"CREATOR", [](const CapacityOrder& order) { return order.creator(); }, /*wide=*/true},
       {"REASON", [](const CapacityOrder& order) { return order.reason(); }, /*wide=*/true}});
}

absl::Status GetOrder(const std::string& name, Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto orders,
                           Connect<CapacityOrderService>(invocation, "scheduler"));
  GetCapacityOrderRequest request;
  request.set_name(OrderResource(name));
  CAPSTAN_ASSIGN_OR_RETURN(const CapacityOrder order,
                           Call(orders.stub.get(), &CapacityOrderService::Stub::GetCapacityOrder,
                                request, Terms(invocation)));
  return PrintResource<CapacityOrder>(invocation, order, [&](const CapacityOrder& shown) {
    return DescribeOrder(shown, invocation.clock->Read().wall);
  });
}

absl::Status DeleteOrder(const std::string& name, Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto orders,
                           Connect<CapacityOrderService>(invocation, "scheduler"));
  DeleteCapacityOrderRequest request;
  request.set_name(OrderResource(name));
  CAPSTAN_RETURN_IF_ERROR(Call(orders.stub.get(), &CapacityOrderService::Stub::DeleteCapacityOrder,
                               request, Terms(invocation))
                              .status());
  *invocation.out << WithoutControls(request.name()) << " deleted: its Nodes are kept for nobody\n";
  return absl::OkStatus();
}

}  // namespace capstan::cli
