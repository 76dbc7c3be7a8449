#include "services/scheduler/api/executor_session_service.h"

#include <memory>
#include <string>
#include <utility>

#include "libs/rpc/session_server.h"
#include "libs/status/status_macros.h"

namespace capstan::scheduler {
namespace {

using capstan::type::v1::SessionDown;
using capstan::type::v1::SessionUp;
using Stream = rpc::ServerSession<SessionUp, SessionDown>;

class StreamSink final : public Engine::SessionSink {
 public:
  StreamSink(std::shared_ptr<Stream> stream, std::string cluster, PlacementSigner* placements)
      : stream_(std::move(stream)), cluster_(std::move(cluster)), placements_(placements) {}

  absl::Status Send(const SessionDown& message) override {
    if (!message.has_desired() || placements_ == nullptr) return stream_->Send(message);
    SessionDown granted = message;
    CAPSTAN_RETURN_IF_ERROR(placements_->Sign(cluster_, granted.mutable_desired()));
    return stream_->Send(granted);
  }
  void Finish(const absl::Status& status) override { stream_->Finish(status); }

 private:
  const std::shared_ptr<Stream> stream_;
  const std::string cluster_;
  PlacementSigner* const placements_;
};

}  // namespace

grpc::ServerBidiReactor<SessionUp, SessionDown>* ExecutorSessionService::Connect(
    grpc::CallbackServerContext* context) {
  return rpc::AcceptSession<SessionUp, SessionDown>(
      context, deps_.access, "/capstan.scheduler.v1.ExecutorSession/Connect", deps_.strand,
      [engine = deps_.engine, placements = deps_.placements](std::shared_ptr<Stream> stream) {
        const std::string cluster = stream->caller().id ? stream->caller().id->cluster : "";
        const SessionId id =
            engine->OpenSession(cluster, std::make_unique<StreamSink>(stream, cluster, placements));
        rpc::SessionCallbacks<SessionUp> callbacks;
        callbacks.on_message = [engine, id](SessionUp message) {
          engine->SessionMessage(id, std::move(message));
        };
        callbacks.on_closed = [engine, id](const absl::Status&) { engine->SessionGone(id); };
        return callbacks;
      });
}

}  // namespace capstan::scheduler
