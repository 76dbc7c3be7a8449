#include "services/executor/api/agent_session_service.h"

#include <utility>

#include "libs/rpc/session_server.h"
#include "libs/session/rpc_channel.h"
#include "libs/status/error.h"

namespace capstan::executor {

using capstan::type::v1::SessionDown;
using capstan::type::v1::SessionUp;
using AgentServerSession = rpc::ServerSession<SessionUp, SessionDown>;

grpc::ServerBidiReactor<SessionUp, SessionDown>* AgentSessionService::Connect(
    grpc::CallbackServerContext* context) {
  return rpc::AcceptSession<SessionUp, SessionDown>(
      context, access_, "/capstan.executor.v1.AgentSession/Connect", strand_,
      [this](const std::shared_ptr<AgentServerSession>& session) {
        rpc::SessionCallbacks<SessionUp> callbacks;
        const auth::Caller& caller = session->caller();
        if (!caller.IsNode() || caller.id->cluster != cluster_) {
          session->Finish(status::PermissionDenied("sessions.open", cluster_));
          return callbacks;
        }
        const uint64_t number =
            sink_.connected(caller.id->node, std::make_shared<session::RpcDownChannel>(session));
        callbacks.on_message = [this, number](SessionUp message) {
          sink_.message(number, std::move(message));
        };
        callbacks.pace = [this](absl::AnyInvocable<void()> read_on) {
          sink_.pace(std::move(read_on));
        };
        callbacks.on_closed = [this, number](const absl::Status&) { sink_.closed(number); };
        return callbacks;
      });
}

}  // namespace capstan::executor
