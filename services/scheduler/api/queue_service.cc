#include "services/scheduler/api/queue_service.h"

#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/resource/field_mask.h"
#include "libs/resource/id.h"
#include "libs/resource/name.h"
#include "libs/rpc/finish.h"
#include "libs/rpc/unary.h"
#include "libs/status/error.h"
#include "services/scheduler/api/asked.h"
#include "services/scheduler/api/body_hash.h"
#include "services/scheduler/core/render.h"
#include "services/scheduler/core/validate.h"

namespace capstan::scheduler {
namespace {

namespace pb = ::capstan::scheduler::v1;

const std::set<std::string>& OutputOnly() {
  static const auto& fields = *new std::set<std::string>{
      "name", "uid", "etag", "create_time", "usage", "dominant_share", "fair_dominant_share"};
  return fields;
}

// As stored, with what it uses and is entitled to.
pb::Queue Render(const ApiDeps& deps, const CommittedView& view, const std::string& id,
                 const rec::QueueRecord& record) {
  const auto usage = view.model().queue_usage.find(id);
  pb::Queue queue =
      RenderQueue(record, usage == view.model().queue_usage.end() ? nullptr : &usage->second,
                  deps.strand->clock().Read().wall);
  deps.shares->Show(&queue);
  return queue;
}

}  // namespace

grpc::ServerUnaryReactor* QueueService::CreateQueue(grpc::CallbackServerContext* context,
                                                    const pb::CreateQueueRequest* request,
                                                    pb::Queue* response) {
  return rpc::HandleUnary(
      context, deps_.access, "/capstan.scheduler.v1.QueueService/CreateQueue", request, response,
      [](const pb::CreateQueueRequest& r) {
        status::FieldErrors errors;
        ValidateQueue(r.queue_id(), r.queue(), &errors);
        if (!resource::ValidateRequestId(r.request_id()).ok()) {
          errors.Add("request_id", absl::StrCat("is `", r.request_id(), "`; expected a UUID4"));
        }
        return errors.ToStatus();
      },
      [this](const rpc::Call& call, const pb::CreateQueueRequest& r, pb::Queue* response,
             rpc::Finish finish) {
        const absl::Status audited =
            AuditBefore(deps_, call, absl::StrCat("queues/", r.queue_id()), "");
        if (!audited.ok()) return finish(audited);
        scheduler::CreateQueue event;
        event.queue_id = r.queue_id();
        event.request_id = r.request_id();
        event.body_hash = BodyHash(r);
        event.queue = Asked(r.queue(), OutputOnly());
        deps_.strand->Post(
            [this, event = std::move(event), response, finish = std::move(finish)]() mutable {
              event.uid = deps_.random->Uuid4();
              deps_.engine->Call(std::move(event), rpc::RespondWith(response, std::move(finish)));
            });
      });
}

grpc::ServerUnaryReactor* QueueService::UpdateQueue(grpc::CallbackServerContext* context,
                                                    const pb::UpdateQueueRequest* request,
                                                    pb::Queue* response) {
  return rpc::HandleUnary(
      context, deps_.access, "/capstan.scheduler.v1.QueueService/UpdateQueue", request, response,
      [](const pb::UpdateQueueRequest& r) {
        status::FieldErrors errors;
        const auto name = resource::QueueName::Parse(r.queue().name());
        if (!name.ok()) {
          errors.Add("queue.name", absl::StrCat("is `", r.queue().name(), "`; expected ",
                                                resource::QueueName::kPattern));
          return errors.ToStatus();
        }
        if (r.update_mask().paths().empty()) {
          errors.Add("update_mask", "is empty; expected the fields to change, e.g. weight");
        }
        ValidateQueue(name->queue, r.queue(), &errors);
        absl::Status status = errors.ToStatus();
        // Before the audit, which names the paths.
        if (status.ok()) {
          status = resource::CheckFieldMask(r.update_mask(), pb::Queue::descriptor());
        }
        return status;
      },
      [this](const rpc::Call& call, const pb::UpdateQueueRequest& r, pb::Queue* response,
             rpc::Finish finish) {
        const absl::Status audited =
            AuditBefore(deps_, call, r.queue().name(),
                        absl::StrCat("changes ", absl::StrJoin(r.update_mask().paths(), ", ")));
        if (!audited.ok()) return finish(audited);
        scheduler::UpdateQueue event;
        event.queue_id = resource::QueueName::Parse(r.queue().name())->queue;
        event.etag = r.queue().etag();
        *event.update_mask.mutable_paths() = r.update_mask().paths();
        event.queue = Asked(r.queue(), OutputOnly(), r.update_mask());
        deps_.strand->Post(
            [this, event = std::move(event), response, finish = std::move(finish)]() mutable {
              deps_.engine->Call(std::move(event), rpc::RespondWith(response, std::move(finish)));
            });
      });
}

grpc::ServerUnaryReactor* QueueService::GetQueue(grpc::CallbackServerContext* context,
                                                 const pb::GetQueueRequest* request,
                                                 pb::Queue* response) {
  return rpc::HandleUnary(
      context, deps_.access, "/capstan.scheduler.v1.QueueService/GetQueue", request, response,
      [](const pb::GetQueueRequest& r) {
        status::FieldErrors errors;
        if (!resource::QueueName::Parse(r.name()).ok()) {
          errors.Add("name",
                     absl::StrCat("is `", r.name(), "`; expected ", resource::QueueName::kPattern));
        }
        return errors.ToStatus();
      },
      [this](const rpc::Call&, const pb::GetQueueRequest& r, pb::Queue* response,
             rpc::Finish finish) {
        ReadView(deps_, std::move(finish), [this, &r, response](const CommittedView& view) {
          auto queue = view.model().queues.find(resource::QueueName::Parse(r.name())->queue);
          if (queue == view.model().queues.end()) return status::NotFound(r.name());
          *response = Render(deps_, view, queue->first, queue->second);
          return absl::OkStatus();
        });
      });
}

grpc::ServerUnaryReactor* QueueService::ListQueues(grpc::CallbackServerContext* context,
                                                   const pb::ListQueuesRequest* request,
                                                   pb::ListQueuesResponse* response) {
  return rpc::HandleUnary(
      context, deps_.access, "/capstan.scheduler.v1.QueueService/ListQueues", request, response,
      rpc::NothingToValidate(),
      [this](const rpc::Call&, const pb::ListQueuesRequest& r, pb::ListQueuesResponse* response,
             rpc::Finish finish) {
        const std::string arguments = resource::PageArguments(r);
        const auto size = resource::EffectivePageSize(r.page_size());
        if (!size.ok()) return finish(size.status());
        const auto position = deps_.tokens->Open(r.page_token(), arguments);
        if (!position.ok()) return finish(position.status());
        ReadView(deps_, std::move(finish),
                 [this, response, arguments, size = *size,
                  after = *position](const CommittedView& view) {
                   const auto& queues = view.model().queues;
                   std::string last;
                   for (auto it = queues.upper_bound(after); it != queues.end(); ++it) {
                     if (response->queues_size() == size) {
                       response->set_next_page_token(deps_.tokens->Seal(last, arguments));
                       break;
                     }
                     *response->add_queues() = Render(deps_, view, it->first, it->second);
                     last = it->first;
                   }
                   return absl::OkStatus();
                 });
      });
}

}  // namespace capstan::scheduler
