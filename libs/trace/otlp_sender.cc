#include "libs/trace/otlp_sender.h"

#include <memory>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/channel_arguments.h"
#include "libs/rpc/call.h"
#include "libs/rpc/callback_threads.h"
#include "proto/opentelemetry/collector/trace/v1/trace_service.grpc.pb.h"

namespace capstan::trace {

using opentelemetry::proto::collector::trace::v1::TraceService;

Exporter::Send MakeOtlpSender(const std::string& address,
                              const absl::optional<std::string>& authorities, Strand* strand) {
  rpc::KeepCallbackThreads();
  grpc::ChannelArguments args;
  args.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  args.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  args.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1'000);
  args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 5'000);
  std::shared_ptr<grpc::ChannelCredentials> credentials;
  if (!authorities.has_value()) {
    credentials = grpc::InsecureChannelCredentials();
  } else {
    grpc::SslCredentialsOptions options;
    options.pem_root_certs = *authorities;
    credentials = grpc::SslCredentials(options);
  }
  // Not by rpc::Dial: what carries spans must not make any.
  const std::shared_ptr<TraceService::Stub> stub =
      TraceService::NewStub(grpc::CreateCustomChannel(address, credentials, args));
  return [stub, strand](Exporter::Request request,
                        absl::AnyInvocable<void(absl::StatusOr<Exporter::Response>)> done) {
    rpc::CallUnary(stub.get(), &TraceService::StubInterface::async_interface::Export,
                   std::move(request), {.deadline = absl::Seconds(10)}, strand, std::move(done));
  };
}

}  // namespace capstan::trace
