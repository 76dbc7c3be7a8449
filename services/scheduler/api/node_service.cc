#include "services/scheduler/api/node_service.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "libs/resource/id.h"
#include "libs/resource/name.h"
#include "libs/rpc/finish.h"
#include "libs/rpc/server_stream.h"
#include "libs/rpc/unary.h"
#include "libs/status/error.h"
#include "services/scheduler/api/asked.h"
#include "services/scheduler/api/body_hash.h"
#include "services/scheduler/api/demand_watch.h"
#include "services/scheduler/api/watch_stream.h"
#include "services/scheduler/core/maintenance.h"
#include "services/scheduler/core/render.h"

namespace capstan::scheduler {
namespace {

namespace pb = ::capstan::scheduler::v1;

constexpr char kAllClusters[] = "clusters/-";
constexpr size_t kMaxReason = 256;

absl::Status CheckNodeName(const std::string& name) {
  status::FieldErrors errors;
  if (!resource::NodeName::Parse(name).ok()) {
    errors.Add("name", absl::StrCat("is `", name, "`; expected ", resource::NodeName::kPattern));
  }
  return errors.ToStatus();
}

absl::Status CheckParent(const std::string& parent) {
  status::FieldErrors errors;
  if (parent != kAllClusters && !resource::ClusterName::Parse(parent).ok()) {
    errors.Add("parent", absl::StrCat("is `", parent, "`; expected ",
                                      resource::ClusterName::kPattern, " or ", kAllClusters));
  }
  return errors.ToStatus();
}

// Of a checked name.
NodeId IdOf(const std::string& name) {
  const auto parsed = resource::NodeName::Parse(name);
  return {parsed->cluster, parsed->node};
}

bool InParent(const NodeId& id, const std::string& parent) {
  return parent == kAllClusters || parent == absl::StrCat("clusters/", id.cluster);
}

// Of a Node that is there.
pb::Node Render(const CommittedView& view, const NodeId& id, absl::Time now) {
  const rec::NodeRecord& node = view.model().nodes.at(id);
  return RenderNode(id, node, view.usage().Get(id), WindowsOf(view.model(), id, node, now));
}

absl::Status CheckWindowName(const std::string& name) {
  status::FieldErrors errors;
  if (!resource::MaintenanceWindowName::Parse(name).ok()) {
    errors.Add("name", absl::StrCat("is `", name, "`; expected ",
                                    resource::MaintenanceWindowName::kPattern));
  }
  return errors.ToStatus();
}

// Of a checked name.
std::pair<std::string, std::string> WindowIdOf(const std::string& name) {
  auto parsed = resource::MaintenanceWindowName::Parse(name);
  return {std::move(parsed->cluster), std::move(parsed->window)};
}

class NodeWatch final : public WatchStream<NodeId, pb::WatchNodesResponse> {
 public:
  NodeWatch(const ApiDeps& deps, int64_t incarnation, const pb::WatchNodesRequest& request,
            Writer writer)
      : WatchStream(deps, incarnation, resource::PageArguments(request), std::move(writer)),
        parent_(request.parent()) {}

  void NodesChanged(const std::set<NodeId>& nodes) override { Changed(nodes); }

 private:
  bool Advance(int most, std::vector<NodeId>* ids) override {
    const auto& nodes = deps().view->model().nodes;
    auto next = past_.has_value() ? nodes.upper_bound(*past_) : nodes.begin();
    for (; next != nodes.end() && most > 0; ++next, --most) {
      past_ = next->first;
      if (InParent(next->first, parent_)) ids->push_back(next->first);
    }
    return next != nodes.end();
  }
  void Rewind() override { past_.reset(); }
  size_t Count() const override { return deps().view->model().nodes.size(); }
  bool IsPast(const NodeId& id) const override { return past_.has_value() && !(*past_ < id); }
  bool Matches(const NodeId& id) const override {
    return InParent(id, parent_) && deps().view->model().nodes.count(id) > 0;
  }
  int64_t Revision(const NodeId& id) const override { return deps().view->NodeRevision(id); }
  void Fill(const NodeId& id, pb::WatchNodesResponse* response) const override {
    *response->mutable_node() = Render(*deps().view, id, deps().strand->clock().Read().wall);
  }

  const std::string parent_;
  absl::optional<NodeId> past_;
};

}  // namespace

grpc::ServerUnaryReactor* NodeService::GetNode(grpc::CallbackServerContext* context,
                                               const pb::GetNodeRequest* request,
                                               pb::Node* response) {
  return rpc::HandleUnary(
      context, deps_.access, "/capstan.scheduler.v1.NodeService/GetNode", request, response,
      [](const pb::GetNodeRequest& r) { return CheckNodeName(r.name()); },
      [this](const rpc::Call&, const pb::GetNodeRequest& r, pb::Node* response,
             rpc::Finish finish) {
        ReadView(deps_, std::move(finish), [this, &r, response](const CommittedView& view) {
          const NodeId id = IdOf(r.name());
          if (view.model().nodes.count(id) == 0) return status::NotFound(r.name());
          *response = Render(view, id, deps_.strand->clock().Read().wall);
          return absl::OkStatus();
        });
      });
}

grpc::ServerUnaryReactor* NodeService::ListNodes(grpc::CallbackServerContext* context,
                                                 const pb::ListNodesRequest* request,
                                                 pb::ListNodesResponse* response) {
  return rpc::HandleUnary(
      context, deps_.access, "/capstan.scheduler.v1.NodeService/ListNodes", request, response,
      [](const pb::ListNodesRequest& r) { return CheckParent(r.parent()); },
      [this](const rpc::Call&, const pb::ListNodesRequest& r, pb::ListNodesResponse* response,
             rpc::Finish finish) {
        const std::string arguments = resource::PageArguments(r);
        const auto size = resource::EffectivePageSize(r.page_size());
        if (!size.ok()) return finish(size.status());
        const auto position = deps_.tokens->Open(r.page_token(), arguments);
        if (!position.ok()) return finish(position.status());
        ReadView(deps_, std::move(finish),
                 [this, &r, response, arguments, size = *size,
                  after = *position](const CommittedView& view) {
                   const auto& nodes = view.model().nodes;
                   const absl::Time now = deps_.strand->clock().Read().wall;
                   const auto from = after.empty() ? nodes.begin() : nodes.upper_bound(IdOf(after));
                   for (auto it = from; it != nodes.end(); ++it) {
                     if (!InParent(it->first, r.parent())) continue;
                     if (response->nodes_size() == size) {
                       response->set_next_page_token(
                           deps_.tokens->Seal(response->nodes(size - 1).name(), arguments));
                       break;
                     }
                     *response->add_nodes() = Render(view, it->first, now);
                   }
                   return absl::OkStatus();
                 });
      });
}

grpc::ServerWriteReactor<pb::WatchNodesResponse>* NodeService::WatchNodes(
    grpc::CallbackServerContext* context, const pb::WatchNodesRequest* request) {
  return rpc::HandleServerStream<pb::WatchNodesResponse>(
      context, deps_.access, "/capstan.scheduler.v1.NodeService/WatchNodes", request,
      [](const pb::WatchNodesRequest& r) { return CheckParent(r.parent()); },
      [this](std::shared_ptr<rpc::ServerStreamWriter<pb::WatchNodesResponse>> writer,
             const pb::WatchNodesRequest& r) {
        auto watch = std::make_shared<NodeWatch>(deps_, incarnation_, r, std::move(writer));
        deps_.strand->Post([this, watch, token = r.resume_token()] {
          deps_.view->WhenAtLeast(deps_.engine->committed_revision(),
                                  [watch, token] { watch->Start(token); });
        });
      });
}

grpc::ServerUnaryReactor* NodeService::CordonNode(grpc::CallbackServerContext* context,
                                                  const pb::CordonNodeRequest* request,
                                                  pb::Node* response) {
  return rpc::HandleUnary(
      context, deps_.access, "/capstan.scheduler.v1.NodeService/CordonNode", request, response,
      [](const pb::CordonNodeRequest& r) {
        absl::Status name = CheckNodeName(r.name());
        if (!name.ok()) return name;
        status::FieldErrors errors;
        if (r.reason().size() > kMaxReason) {
          errors.Add("reason", absl::StrCat("has ", r.reason().size(), " bytes; expected at most ",
                                            kMaxReason));
        }
        return errors.ToStatus();
      },
      [this](const rpc::Call& call, const pb::CordonNodeRequest& r, pb::Node* response,
             rpc::Finish finish) {
        const absl::Status audited = AuditBefore(deps_, call, r.name(), r.reason());
        if (!audited.ok()) return finish(audited);
        const NodeId id = IdOf(r.name());
        scheduler::CordonNode event{0, id.cluster, id.node, call.caller.Name(), r.reason()};
        deps_.strand->Post(
            [this, event = std::move(event), response, finish = std::move(finish)]() mutable {
              deps_.engine->Call(std::move(event), rpc::RespondWith(response, std::move(finish)));
            });
      });
}

grpc::ServerUnaryReactor* NodeService::UncordonNode(grpc::CallbackServerContext* context,
                                                    const pb::UncordonNodeRequest* request,
                                                    pb::Node* response) {
  return rpc::HandleUnary(
      context, deps_.access, "/capstan.scheduler.v1.NodeService/UncordonNode", request, response,
      [](const pb::UncordonNodeRequest& r) { return CheckNodeName(r.name()); },
      [this](const rpc::Call& call, const pb::UncordonNodeRequest& r, pb::Node* response,
             rpc::Finish finish) {
        const absl::Status audited = AuditBefore(deps_, call, r.name(), "");
        if (!audited.ok()) return finish(audited);
        const NodeId id = IdOf(r.name());
        scheduler::UncordonNode event{0, id.cluster, id.node, call.caller.Name()};
        deps_.strand->Post(
            [this, event = std::move(event), response, finish = std::move(finish)]() mutable {
              deps_.engine->Call(std::move(event), rpc::RespondWith(response, std::move(finish)));
            });
      });
}

grpc::ServerUnaryReactor* NodeService::CreateMaintenanceWindow(
    grpc::CallbackServerContext* context, const pb::CreateMaintenanceWindowRequest* request,
    pb::MaintenanceWindow* response) {
  return rpc::HandleUnary(
      context, deps_.access, "/capstan.scheduler.v1.NodeService/CreateMaintenanceWindow", request,
      response,
      [](const pb::CreateMaintenanceWindowRequest& r) {
        status::FieldErrors errors;
        const auto parent = resource::ClusterName::Parse(r.parent());
        if (!parent.ok()) {
          errors.Add("parent", absl::StrCat("is `", r.parent(), "`; expected ",
                                            resource::ClusterName::kPattern));
          return errors.ToStatus();
        }
        ValidateMaintenanceWindow(parent->cluster, r.maintenance_window_id(),
                                  r.maintenance_window(), &errors);
        if (!resource::ValidateRequestId(r.request_id()).ok()) {
          errors.Add("request_id", absl::StrCat("is `", r.request_id(), "`; expected a UUID4"));
        }
        return errors.ToStatus();
      },
      [this](const rpc::Call& call, const pb::CreateMaintenanceWindowRequest& r,
             pb::MaintenanceWindow* response, rpc::Finish finish) {
        scheduler::CreateMaintenanceWindow event;
        event.cluster = resource::ClusterName::Parse(r.parent())->cluster;
        event.window_id = r.maintenance_window_id();
        event.creator = call.caller.Name();
        event.request_id = r.request_id();
        event.body_hash = BodyHash(r);
        event.window = Asked(r.maintenance_window(), {"name", "uid", "etag", "create_time",
                                                      "creator", "node_count", "job_count"});
        const absl::Status audited = AuditBefore(
            deps_, call, resource::MaintenanceWindowName{event.cluster, event.window_id}.ToString(),
            absl::StrCat(event.window.evict() ? "stops what runs there" : "",
                         event.window.evict() && !event.window.reason().empty() ? "; " : "",
                         event.window.reason()));
        if (!audited.ok()) return finish(audited);
        deps_.strand->Post(
            [this, event = std::move(event), response, finish = std::move(finish)]() mutable {
              event.uid = deps_.random->Uuid4();
              deps_.engine->Call(std::move(event), rpc::RespondWith(response, std::move(finish)));
            });
      });
}

grpc::ServerUnaryReactor* NodeService::GetMaintenanceWindow(
    grpc::CallbackServerContext* context, const pb::GetMaintenanceWindowRequest* request,
    pb::MaintenanceWindow* response) {
  return rpc::HandleUnary(
      context, deps_.access, "/capstan.scheduler.v1.NodeService/GetMaintenanceWindow", request,
      response, [](const pb::GetMaintenanceWindowRequest& r) { return CheckWindowName(r.name()); },
      [this](const rpc::Call&, const pb::GetMaintenanceWindowRequest& r,
             pb::MaintenanceWindow* response, rpc::Finish finish) {
        ReadView(deps_, std::move(finish), [&r, response](const CommittedView& view) {
          const auto id = WindowIdOf(r.name());
          const auto window = view.model().maintenance_windows.find(id);
          if (window == view.model().maintenance_windows.end()) return status::NotFound(r.name());
          *response = RenderMaintenanceWindow(view.model(), view.usage(), id.first,
                                              window->second.window());
          return absl::OkStatus();
        });
      });
}

grpc::ServerUnaryReactor* NodeService::ListMaintenanceWindows(
    grpc::CallbackServerContext* context, const pb::ListMaintenanceWindowsRequest* request,
    pb::ListMaintenanceWindowsResponse* response) {
  return rpc::HandleUnary(
      context, deps_.access, "/capstan.scheduler.v1.NodeService/ListMaintenanceWindows", request,
      response, [](const pb::ListMaintenanceWindowsRequest& r) { return CheckParent(r.parent()); },
      [this](const rpc::Call&, const pb::ListMaintenanceWindowsRequest& r,
             pb::ListMaintenanceWindowsResponse* response, rpc::Finish finish) {
        const std::string arguments = resource::PageArguments(r);
        const auto size = resource::EffectivePageSize(r.page_size());
        if (!size.ok()) return finish(size.status());
        const auto position = deps_.tokens->Open(r.page_token(), arguments);
        if (!position.ok()) return finish(position.status());
        ReadView(deps_, std::move(finish),
                 [this, &r, response, arguments, size = *size,
                  after = *position](const CommittedView& view) {
                   const auto& windows = view.model().maintenance_windows;
                   const auto from =
                       after.empty() ? windows.begin() : windows.upper_bound(WindowIdOf(after));
                   for (auto it = from; it != windows.end(); ++it) {
                     if (!InParent({it->first.first, ""}, r.parent())) continue;
                     if (response->maintenance_windows_size() == size) {
                       response->set_next_page_token(deps_.tokens->Seal(
                           response->maintenance_windows(size - 1).name(), arguments));
                       break;
                     }
                     *response->add_maintenance_windows() = RenderMaintenanceWindow(
                         view.model(), view.usage(), it->first.first, it->second.window());
                   }
                   return absl::OkStatus();
                 });
      });
}

grpc::ServerUnaryReactor* NodeService::DeleteMaintenanceWindow(
    grpc::CallbackServerContext* context, const pb::DeleteMaintenanceWindowRequest* request,
    pb::DeleteMaintenanceWindowResponse* response) {
  return rpc::HandleUnary(
      context, deps_.access, "/capstan.scheduler.v1.NodeService/DeleteMaintenanceWindow", request,
      response,
      [](const pb::DeleteMaintenanceWindowRequest& r) { return CheckWindowName(r.name()); },
      [this](const rpc::Call& call, const pb::DeleteMaintenanceWindowRequest& r,
             pb::DeleteMaintenanceWindowResponse*, rpc::Finish finish) {
        const absl::Status audited = AuditBefore(deps_, call, r.name(), "");
        if (!audited.ok()) return finish(audited);
        const auto id = WindowIdOf(r.name());
        deps_.strand->Post(
            [this, event = scheduler::DeleteMaintenanceWindow{0, id.first, id.second, r.etag()},
             finish = std::move(finish)]() mutable {
              deps_.engine->Call(std::move(event), std::move(finish));
            });
      });
}

grpc::ServerUnaryReactor* NodeService::ConfirmSilence(grpc::CallbackServerContext* context,
                                                      const pb::ConfirmSilenceRequest* request,
                                                      pb::ConfirmSilenceResponse* response) {
  return rpc::HandleUnary(context, deps_.access, "/capstan.scheduler.v1.NodeService/ConfirmSilence",
                          request, response, rpc::NothingToValidate(),
                          [this](const rpc::Call& call, const pb::ConfirmSilenceRequest&,
                                 pb::ConfirmSilenceResponse*, rpc::Finish finish) {
                            const absl::Status audited = AuditBefore(deps_, call, "", "");
                            if (!audited.ok()) return finish(audited);
                            deps_.strand->Post([this, finish = std::move(finish)]() mutable {
                              deps_.engine->Call(scheduler::ConfirmSilence(), std::move(finish));
                            });
                          });
}

grpc::ServerWriteReactor<pb::WatchDemandResponse>* NodeService::WatchDemand(
    grpc::CallbackServerContext* context, const pb::WatchDemandRequest* request) {
  return rpc::HandleServerStream<pb::WatchDemandResponse>(
      context, deps_.access, "/capstan.scheduler.v1.NodeService/WatchDemand", request,
      [](const pb::WatchDemandRequest& r) { return CheckParent(r.parent()); },
      [this](std::shared_ptr<rpc::ServerStreamWriter<pb::WatchDemandResponse>> writer,
             const pb::WatchDemandRequest& r) {
        const std::string cluster =
            r.parent() == kAllClusters ? "" : resource::ClusterName::Parse(r.parent())->cluster;
        auto watch = std::make_shared<DemandWatch>(deps_, cluster, std::move(writer));
        deps_.strand->Post([this, watch] {
          deps_.view->WhenAtLeast(deps_.engine->committed_revision(), [watch] { watch->Start(); });
        });
      });
}

}  // namespace capstan::scheduler
