#include "integration/crash/etcd_leases.h"

#include <fstream>
#include <memory>
#include <sstream>

#include "grpcpp/client_context.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/channel_arguments.h"
#include "libs/rpc/call.h"
#include "libs/rpc/status_conversion.h"
#include "libs/status/status_macros.h"
#include "proto/etcd/etcdserverpb/rpc.grpc.pb.h"

namespace capstan::integration {
namespace {

using etcdserverpb::Lease;

constexpr absl::Duration kPatience = absl::Seconds(10);

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

template <typename Request, typename Response>
absl::StatusOr<Response> Ask(Lease::Stub* stub,
                             grpc::Status (Lease::Stub::*method)(grpc::ClientContext*,
                                                                 const Request&, Response*),
                             const Request& request) {
  grpc::ClientContext context;
  rpc::SetDeadline(context, kPatience);
  context.set_wait_for_ready(true);
  Response response;
  CAPSTAN_RETURN_IF_ERROR(rpc::FromGrpcStatus((stub->*method)(&context, request, &response)));
  return response;
}

}  // namespace

absl::StatusOr<std::vector<EtcdLease>> EtcdLeases(const testenv::EtcdServer& etcd) {
  grpc::SslCredentialsOptions tls;
  tls.pem_root_certs = ReadFile(etcd.ca_file());
  tls.pem_cert_chain = ReadFile(etcd.certificate_file());
  tls.pem_private_key = ReadFile(etcd.key_file());
  grpc::ChannelArguments settings;
  settings.SetSslTargetNameOverride(etcd.server_name());
  const auto stub = Lease::NewStub(
      grpc::CreateCustomChannel(etcd.endpoints().front(), grpc::SslCredentials(tls), settings));
  CAPSTAN_ASSIGN_OR_RETURN(
      const etcdserverpb::LeaseLeasesResponse all,
      Ask(stub.get(), &Lease::Stub::LeaseLeases, etcdserverpb::LeaseLeasesRequest()));
  std::vector<EtcdLease> leases;
  for (const etcdserverpb::LeaseStatus& one : all.leases()) {
    etcdserverpb::LeaseTimeToLiveRequest request;
    request.set_id(one.id());
    request.set_keys(true);
    CAPSTAN_ASSIGN_OR_RETURN(const etcdserverpb::LeaseTimeToLiveResponse lives,
                             Ask(stub.get(), &Lease::Stub::LeaseTimeToLive, request));
    // It may have run out since.
    if (lives.ttl() >= 0) {
      leases.push_back({one.id(), absl::Seconds(lives.ttl()), lives.keys_size()});
    }
  }
  return leases;
}

}  // namespace capstan::integration
