#include "libs/rpc/server.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/server_builder.h"
#include "grpcpp/server_posix.h"
#include "libs/auth/access_rules.h"
#include "libs/rpc/callback_threads.h"
#include "libs/rpc/limits.h"
#include "libs/rpc/observation.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"

namespace capstan::rpc {
namespace {

void SetMilliseconds(grpc::ServerBuilder& builder, const char* name, absl::Duration value) {
  builder.AddChannelArgument(
      name, static_cast<int>(std::clamp<int64_t>(absl::ToInt64Milliseconds(value), 1, 0x7fffffff)));
}

void SetArguments(grpc::ServerBuilder& builder, const ServerConfig& config) {
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.SetMaxSendMessageSize(kMaxMessageBytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, config.max_concurrent_streams);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  SetMilliseconds(builder, GRPC_ARG_KEEPALIVE_TIME_MS, absl::Seconds(30));
  SetMilliseconds(builder, GRPC_ARG_KEEPALIVE_TIMEOUT_MS, absl::Seconds(10));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  SetMilliseconds(builder, GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                  absl::Seconds(10));
  // gRPC spreads ages by a tenth up and down.
  SetMilliseconds(builder, GRPC_ARG_MAX_CONNECTION_AGE_MS, config.max_connection_age / 1.1);
  SetMilliseconds(builder, GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS, config.max_connection_age_grace);
  // A handshake that does not get on holds a connection, not a handler; end it soon all the same.
  SetMilliseconds(builder, GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, absl::Seconds(10));
}

}  // namespace

absl::Duration ConnectionAge(const IdentitySnapshot& identity, absl::Time now) {
  const absl::Duration half_life = (identity.not_after - identity.not_before) / 2;
  return std::max(absl::Seconds(5), std::min(half_life, identity.not_after - now));
}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerConfig& config) {
  for (const RegisteredService& service : config.services) {
    CAPSTAN_RETURN_IF_ERROR(auth::CheckServiceRules(service.full_name));
  }
  KeepCallbackThreads();
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  SetArguments(builder, config);
  if (auto interceptors = MakeServerInterceptors(); !interceptors.empty()) {
    builder.experimental().SetInterceptorCreators(std::move(interceptors));
  }
  std::unique_ptr<Server> server(new Server);
  if (config.credentials != nullptr) {
    builder.AddListeningPort(config.address, config.credentials, &server->port_);
  }
  for (const RegisteredService& service : config.services) {
    builder.RegisterService(service.service);
  }
  server->server_ = builder.BuildAndStart();
  if (server->server_ == nullptr || (config.credentials != nullptr && server->port_ == 0)) {
    return status::Error(absl::StatusCode::kUnavailable, "CANNOT_LISTEN",
                         absl::StrCat("cannot listen on ", config.address),
                         {{"address", config.address}});
  }
  return server;
}

Server::~Server() { Shutdown(absl::ZeroDuration()); }

void Server::AddConnection(int fd) { grpc::AddInsecureChannelFromFd(server_.get(), fd); }

void Server::SetServing(const std::string& name, bool serving) {
  if (server_ == nullptr) return;
  grpc::HealthCheckServiceInterface* health = server_->GetHealthCheckService();
  if (health != nullptr) health->SetServingStatus(name, serving);
}

void Server::Shutdown(absl::Duration grace) {
  if (server_ == nullptr) return;
  grpc::HealthCheckServiceInterface* health = server_->GetHealthCheckService();
  if (health != nullptr) health->Shutdown();
  gpr_timespec deadline =
      gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                   gpr_time_from_nanos(absl::ToInt64Nanoseconds(grace), GPR_TIMESPAN));
  server_->Shutdown(deadline);
  server_->Wait();
  server_ = nullptr;
}

std::shared_ptr<grpc::Channel> Server::InProcessChannel() {
  return server_->InProcessChannel(grpc::ChannelArguments());
}

}  // namespace capstan::rpc
