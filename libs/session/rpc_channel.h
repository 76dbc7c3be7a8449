// Control sessions over gRPC.
#ifndef CAPSTAN_LIBS_SESSION_RPC_CHANNEL_H_
#define CAPSTAN_LIBS_SESSION_RPC_CHANNEL_H_

#include <memory>
#include <utility>

#include "grpcpp/channel.h"
#include "libs/rpc/session.h"
#include "libs/rpc/session_client.h"
#include "libs/session/channel.h"
#include "libs/strand/strand.h"

namespace capstan::session {

// Opens `Service.Connect` on a channel; Service is the generated class.
template <typename Service>
class RpcUpDialer final : public UpDialer {
 public:
  // `strand` must outlive the dialer and all its sessions.
  RpcUpDialer(const std::shared_ptr<grpc::Channel>& channel, Strand* strand)
      : stub_(Service::NewStub(channel)), strand_(strand) {}

  std::shared_ptr<UpChannel> Open(UpCallbacks callbacks) override {
    return std::make_shared<Channel>(
        rpc::OpenSession(stub_.get(), &Service::StubInterface::async_interface::Connect, strand_,
                         rpc::SessionCallbacks<capstan::type::v1::SessionDown>{
                             .on_message = std::move(callbacks.on_message),
                             .on_closed = std::move(callbacks.on_closed)}));
  }

 private:
  using RpcSession =
      rpc::BidiClientSession<capstan::type::v1::SessionUp, capstan::type::v1::SessionDown>;

  class Channel final : public UpChannel {
   public:
    explicit Channel(std::shared_ptr<RpcSession> session) : session_(std::move(session)) {}
    absl::Status Send(capstan::type::v1::SessionUp message) override {
      return session_->Send(std::move(message));
    }
    void Finish(const absl::Status& status) override { session_->Finish(status); }

   private:
    const std::shared_ptr<RpcSession> session_;
  };

  const std::unique_ptr<typename Service::Stub> stub_;
  Strand* const strand_;
};

// The server's end of an accepted session.
class RpcDownChannel final : public DownChannel {
 public:
  using RpcSession =
      rpc::BidiServerSession<capstan::type::v1::SessionUp, capstan::type::v1::SessionDown>;

  explicit RpcDownChannel(std::shared_ptr<RpcSession> session) : session_(std::move(session)) {}
  absl::Status Send(capstan::type::v1::SessionDown message) override {
    return session_->Send(std::move(message));
  }
  void Finish(const absl::Status& status) override { session_->Finish(status); }

 private:
  const std::shared_ptr<RpcSession> session_;
};

}  // namespace capstan::session

#endif  // CAPSTAN_LIBS_SESSION_RPC_CHANNEL_H_
