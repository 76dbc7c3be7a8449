#include "services/telemetry/api/task_session_service.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "libs/rpc/or_else.h"
#include "libs/rpc/server_stream.h"
#include "libs/rpc/session_server.h"
#include "libs/rpc/unary.h"
#include "libs/status/error.h"
#include "services/telemetry/core/session_book.h"

namespace capstan::telemetry {
namespace {

using Writer = rpc::ServerStreamWriter<v1::TaskSession>;
using Stream = rpc::ServerSession<v1::TaskSessionFrame, v1::TaskSessionFrame>;

// What one attached stream is, once its first frame has come.
struct Attachment {
  std::string id;
  absl::optional<SessionEnd> end;
};

void OnFirstFrame(SessionRelay* relay, const std::shared_ptr<Stream>& stream,
                  Attachment* attachment, const v1::TaskSessionFrame& frame) {
  if (frame.frame_case() != v1::TaskSessionFrame::kAttach) {
    return stream->Finish(
        status::Error(absl::StatusCode::kInvalidArgument, "BAD_FRAME", "expected `attach` first"));
  }
  attachment->id = frame.attach();
  const absl::StatusOr<SessionEnd> end =
      relay->Attach(frame.attach(), stream->caller(),
                    {[stream](const v1::TaskSessionFrame& out) { return stream->Send(out); },
                     [stream](const absl::Status& status) { stream->Finish(status); }});
  if (!end.ok()) return stream->Finish(end.status());
  attachment->end = *end;
}

}  // namespace

grpc::ServerUnaryReactor* TaskSessionServiceHandler::OpenTaskSession(
    grpc::CallbackServerContext* context, const v1::OpenTaskSessionRequest* request,
    v1::TaskSession* response) {
  return rpc::HandleUnary(context, access_,
                          "/capstan.telemetry.v1.TaskSessionService/OpenTaskSession", request,
                          response, CheckSession,
                          [this](const rpc::Call& call, const v1::OpenTaskSessionRequest& request,
                                 v1::TaskSession* response, rpc::Finish finish) {
                            strand_->Post([this, caller = call.caller, session = request.session(),
                                           response, finish = std::move(finish)]() mutable {
                              relay_->Open(session, caller,
                                           [response, finish = std::move(finish)](
                                               absl::StatusOr<v1::TaskSession> opened) mutable {
                                             if (opened.ok()) *response = *opened;
                                             finish(opened.status());
                                           });
                            });
                          });
}

grpc::ServerWriteReactor<v1::TaskSession>* TaskSessionServiceHandler::WatchTaskSessions(
    grpc::CallbackServerContext* context, const v1::WatchTaskSessionsRequest* request) {
  return rpc::HandleServerStream<v1::TaskSession>(
      context, access_, "/capstan.telemetry.v1.TaskSessionService/WatchTaskSessions", request,
      rpc::NothingToValidate(),
      [this](std::shared_ptr<Writer> writer, const v1::WatchTaskSessionsRequest&) {
        strand_->Post(rpc::OrElse(
            [this, writer] {
              const std::string node = NodeNameOf(*writer->caller().id);
              const uint64_t number = relay_->Watch(
                  node,
                  {[writer](const v1::TaskSession& session) { return writer->Write(session); },
                   [writer](const absl::Status& status) { writer->Finish(status); }});
              writer->NotifyClosed(
                  strand_, [relay = relay_, node, number] { relay->Unwatch(node, number); });
            },
            [writer] { writer->Finish(absl::UnavailableError("telemetry is stopping")); }));
      });
}

grpc::ServerBidiReactor<v1::TaskSessionFrame, v1::TaskSessionFrame>*
TaskSessionServiceHandler::AttachTaskSession(grpc::CallbackServerContext* context) {
  return rpc::AcceptSession<v1::TaskSessionFrame, v1::TaskSessionFrame>(
      context, access_, "/capstan.telemetry.v1.TaskSessionService/AttachTaskSession", strand_,
      [relay = relay_](std::shared_ptr<Stream> stream) {
        auto attachment = std::make_shared<Attachment>();
        rpc::SessionCallbacks<v1::TaskSessionFrame> callbacks;
        callbacks.on_message = [relay, stream, attachment](const v1::TaskSessionFrame& frame) {
          if (!attachment->end.has_value()) {
            return OnFirstFrame(relay, stream, attachment.get(), frame);
          }
          relay->OnFrame(attachment->id, *attachment->end, frame);
        };
        callbacks.on_closed = [relay, attachment](const absl::Status& status) {
          if (attachment->end.has_value())
            relay->OnClosed(attachment->id, *attachment->end, status);
        };
        return callbacks;
      });
}

}  // namespace capstan::telemetry
