#ifndef CAPSTAN_SERVICES_EXECUTOR_API_AGENT_SESSION_SERVICE_H_
#define CAPSTAN_SERVICES_EXECUTOR_API_AGENT_SESSION_SERVICE_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/functional/any_invocable.h"
#include "libs/auth/access.h"
#include "libs/session/channel.h"
#include "libs/strand/strand.h"
#include "proto/capstan/executor/v1/agent_session.grpc.pb.h"
#include "proto/capstan/type/v1/session.pb.h"

namespace capstan::executor {

// Where the sessions of agents go; called on the strand.
struct AgentSessionSink {
  std::function<uint64_t(const std::string& node, std::shared_ptr<session::DownChannel>)> connected;
  std::function<void(uint64_t session, capstan::type::v1::SessionUp)> message;
  // After each message: has the next one of the session read, when there is room for it.
  std::function<void(absl::AnyInvocable<void()> read_on)> pace;
  std::function<void(uint64_t session)> closed;
};

// Serves executor.v1.AgentSession: admits Nodes of this Cluster by their SVID.
class AgentSessionService final : public capstan::executor::v1::AgentSession::CallbackService {
 public:
  // `access` and `strand` must outlive the service and its calls.
  AgentSessionService(std::string cluster, auth::Access* access, Strand* strand,
                      AgentSessionSink sink)
      : cluster_(std::move(cluster)), access_(access), strand_(strand), sink_(std::move(sink)) {}

  grpc::ServerBidiReactor<capstan::type::v1::SessionUp, capstan::type::v1::SessionDown>* Connect(
      grpc::CallbackServerContext* context) override;

 private:
  const std::string cluster_;
  auth::Access* const access_;
  Strand* const strand_;
  const AgentSessionSink sink_;
};

}  // namespace capstan::executor

#endif  // CAPSTAN_SERVICES_EXECUTOR_API_AGENT_SESSION_SERVICE_H_
