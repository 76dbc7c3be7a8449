#include "services/scheduler/api/capacity_order_service.h"

#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/resource/id.h"
#include "libs/resource/name.h"
#include "libs/rpc/finish.h"
#include "libs/rpc/unary.h"
#include "libs/status/error.h"
#include "services/scheduler/api/asked.h"
#include "services/scheduler/api/body_hash.h"
#include "services/scheduler/core/capacity_orders.h"

namespace capstan::scheduler {
namespace {

namespace pb = ::capstan::scheduler::v1;

using resource::CapacityOrderName;

absl::Status CheckOrderName(const std::string& name) {
  status::FieldErrors errors;
  if (!CapacityOrderName::Parse(name).ok()) {
    errors.Add("name", absl::StrCat("is `", name, "`; expected ", CapacityOrderName::kPattern));
  }
  return errors.ToStatus();
}

}  // namespace

grpc::ServerUnaryReactor* CapacityOrderService::CreateCapacityOrder(
    grpc::CallbackServerContext* context, const pb::CreateCapacityOrderRequest* request,
    pb::CapacityOrder* response) {
  return rpc::HandleUnary(
      context, deps_.access, "/capstan.scheduler.v1.CapacityOrderService/CreateCapacityOrder",
      request, response,
      [](const pb::CreateCapacityOrderRequest& r) {
        status::FieldErrors errors;
        ValidateCapacityOrder(r.order_id(), r.order(), &errors);
        if (!resource::ValidateRequestId(r.request_id()).ok()) {
          errors.Add("request_id", absl::StrCat("is `", r.request_id(), "`; expected a UUID4"));
        }
        return errors.ToStatus();
      },
      [this](const rpc::Call& call, const pb::CreateCapacityOrderRequest& r,
             pb::CapacityOrder* response, rpc::Finish finish) {
        const absl::Status audited = AuditBefore(
            deps_, call, CapacityOrderName{r.order_id()}.ToString(),
            absl::StrCat(r.order().nodes(), " Nodes of ", r.order().cluster(), " for ",
                         r.order().job().empty() ? r.order().demand_class() : r.order().job()));
        if (!audited.ok()) return finish(audited);
        scheduler::CreateCapacityOrder event{
            0,
            r.order_id(),
            call.caller.Name(),
            r.request_id(),
            BodyHash(r),
            Asked(r.order(), {"name", "create_time", "creator", "state", "nominee", "nodes_come"})};
        deps_.strand->Post(
            [this, event = std::move(event), response, finish = std::move(finish)]() mutable {
              deps_.engine->Call(std::move(event), rpc::RespondWith(response, std::move(finish)));
            });
      });
}

grpc::ServerUnaryReactor* CapacityOrderService::GetCapacityOrder(
    grpc::CallbackServerContext* context, const pb::GetCapacityOrderRequest* request,
    pb::CapacityOrder* response) {
  return rpc::HandleUnary(
      context, deps_.access, "/capstan.scheduler.v1.CapacityOrderService/GetCapacityOrder", request,
      response, [](const pb::GetCapacityOrderRequest& r) { return CheckOrderName(r.name()); },
      [this](const rpc::Call&, const pb::GetCapacityOrderRequest& r, pb::CapacityOrder* response,
             rpc::Finish finish) {
        ReadView(deps_, std::move(finish), [&r, response](const CommittedView& view) {
          const std::string id = CapacityOrderName::Parse(r.name())->order;
          const auto order = view.model().capacity_orders.find(id);
          if (order == view.model().capacity_orders.end()) return status::NotFound(r.name());
          std::map<std::string, int> come = NodesCome(view.model());
          *response = RenderCapacityOrder(order->second, come[id]);
          return absl::OkStatus();
        });
      });
}

grpc::ServerUnaryReactor* CapacityOrderService::ListCapacityOrders(
    grpc::CallbackServerContext* context, const pb::ListCapacityOrdersRequest* request,
    pb::ListCapacityOrdersResponse* response) {
  return rpc::HandleUnary(
      context, deps_.access, "/capstan.scheduler.v1.CapacityOrderService/ListCapacityOrders",
      request, response, rpc::NothingToValidate(),
      [this](const rpc::Call&, const pb::ListCapacityOrdersRequest& r,
             pb::ListCapacityOrdersResponse* response, rpc::Finish finish) {
        const std::string arguments = resource::PageArguments(r);
        const auto size = resource::EffectivePageSize(r.page_size());
        if (!size.ok()) return finish(size.status());
        const auto position = deps_.tokens->Open(r.page_token(), arguments);
        if (!position.ok()) return finish(position.status());
        ReadView(deps_, std::move(finish),
                 [this, response, arguments, size = *size,
                  after = *position](const CommittedView& view) {
                   const auto& orders = view.model().capacity_orders;
                   std::map<std::string, int> come = NodesCome(view.model());
                   std::string last;
                   for (auto it = orders.upper_bound(after); it != orders.end(); ++it) {
                     if (response->orders_size() == size) {
                       response->set_next_page_token(deps_.tokens->Seal(last, arguments));
                       break;
                     }
                     *response->add_orders() = RenderCapacityOrder(it->second, come[it->first]);
                     last = it->first;
                   }
                   return absl::OkStatus();
                 });
      });
}

grpc::ServerUnaryReactor* CapacityOrderService::DeleteCapacityOrder(
    grpc::CallbackServerContext* context, const pb::DeleteCapacityOrderRequest* request,
    pb::DeleteCapacityOrderResponse* response) {
  return rpc::HandleUnary(
      context, deps_.access, "/capstan.scheduler.v1.CapacityOrderService/DeleteCapacityOrder",
      request, response,
      [](const pb::DeleteCapacityOrderRequest& r) { return CheckOrderName(r.name()); },
      [this](const rpc::Call& call, const pb::DeleteCapacityOrderRequest& r,
             pb::DeleteCapacityOrderResponse*, rpc::Finish finish) {
        const absl::Status audited = AuditBefore(deps_, call, r.name(), "");
        if (!audited.ok()) return finish(audited);
        scheduler::DeleteCapacityOrder event{0, CapacityOrderName::Parse(r.name())->order};
        deps_.strand->Post([this, event = std::move(event), finish = std::move(finish)]() mutable {
          deps_.engine->Call(std::move(event), std::move(finish));
        });
      });
}

}  // namespace capstan::scheduler
