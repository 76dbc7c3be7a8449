#include "libs/kube/exec/port_forward.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/kube/client/request.h"
#include "libs/kube/exec/channel_frames.h"
#include "libs/kube/exec/channel_session.h"
#include "libs/kube/objects/resource_type.h"
#include "libs/kube/objects/resources.h"

namespace capstan::kube {
namespace {

class Session final : public ChannelSession<PortForwardCore> {
 public:
  Session(uint16_t port, const PortForwardOptions& options, PortForwardHandler* handler)
      : ChannelSession(PortForwardCore(port, options.max_bytes)), handler_(handler) {}

  size_t Write(absl::string_view bytes) {
    if (over()) return 0;
    return Apply([&](PortForwardCore& core) { return core.Write(bytes); });
  }

  void OnOpen(absl::string_view subprotocol) override {
    const auto self = shared_from_this();
    absl::Status opened = Open(subprotocol);
    if (!opened.ok()) Finish(std::move(opened));
  }

  bool OnMessage(absl::string_view message) override {
    const auto self = shared_from_this();
    auto received = Receive(message);
    if (!received.has_value()) return false;
    if (!received->error.ok()) {
      Finish(std::move(received->error));
      return false;
    }
    return received->bytes.empty() || handler_->OnBytes(received->bytes);
  }

  void OnSent() override {
    const auto self = shared_from_this();
    const Progress progress = Advance();
    if (progress.room) handler_->OnRoom();
    if (progress.all && !over()) handler_->OnAllSent();
  }

  void OnEnd(WebSocketEnd end) override {
    const auto self = shared_from_this();
    Finish(std::move(end.status));
  }

 private:
  void Finish(absl::Status end) {
    End([&] { handler_->OnEnd(std::move(end)); });
  }

  PortForwardHandler* const handler_;
};

class SessionConnection final : public ForwardedConnection {
 public:
  explicit SessionConnection(std::shared_ptr<Session> session) : session_(std::move(session)) {}
  ~SessionConnection() override { session_->Cancel(); }

  size_t Write(absl::string_view bytes) override { return session_->Write(bytes); }
  void Resume() override { session_->Resume(); }

 private:
  const std::shared_ptr<Session> session_;
};

}  // namespace

std::unique_ptr<ForwardedConnection> ForwardPort(WebSocketDialer* dialer, absl::string_view ns,
                                                 absl::string_view pod, uint16_t port,
                                                 const PortForwardOptions& options,
                                                 PortForwardHandler* handler) {
  Query query;
  query.Add("ports", absl::StrCat(port));
  WebSocketRequest request;
  request.target = ObjectPath(kPods.type(), ns, pod, "portforward") + query.text();
  request.subprotocols = {kChannelsV4};
  request.open_timeout = options.start_timeout;
  request.timeout = options.timeout;
  auto session = std::make_shared<Session>(port, options, handler);
  session->Dial(dialer, std::move(request));
  return std::make_unique<SessionConnection>(std::move(session));
}

}  // namespace capstan::kube
