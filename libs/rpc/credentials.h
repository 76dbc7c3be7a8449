// Transport credentials from an Identity. Whoever connects is verified here, before any handler
// runs: chain, time and SPIFFE id, by our own verifier and not by OpenSSL's defaults, so that every
// refusal is seen and counted, and time is the injected clock's.
#ifndef CAPSTAN_LIBS_RPC_CREDENTIALS_H_
#define CAPSTAN_LIBS_RPC_CREDENTIALS_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "grpcpp/channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/security/server_credentials.h"
#include "libs/rpc/identity.h"
#include "libs/time/clock.h"

namespace capstan::rpc {

// Told about each handshake that was refused: why, and the SPIFFE id that was shown (empty if
// none). Called on gRPC's threads; must not block for long. For counters and the audit log.
using RefusalObserver = std::function<void(const absl::Status& why, absl::string_view spiffe_id)>;

// Server side of mTLS: every client must show a certificate of the identity's trust domain that is
// valid now. `clock` must outlive the server.
std::shared_ptr<grpc::ServerCredentials> MutualTlsServerCredentials(
    std::shared_ptr<const Identity> identity, const Clock* clock,
    RefusalObserver observer = nullptr);

// Server side of the joining port: the server shows its SVID, the client nothing.
std::shared_ptr<grpc::ServerCredentials> JoinServerCredentials(
    std::shared_ptr<const Identity> identity);

// Client side of mTLS: shows the identity's SVID and accepts only the server with the SPIFFE id
// `expected_peer`, given whole or as a path in the own trust domain (`/svc/scheduler`).
std::shared_ptr<grpc::ChannelCredentials> MutualTlsChannelCredentials(
    std::shared_ptr<const Identity> identity, const Clock* clock, absl::string_view expected_peer,
    RefusalObserver observer = nullptr);

// Client side of the joining port: accepts only the server that shows a bundle with this SHA-256
// and a leaf `…/svc/credentials` of it.
std::shared_ptr<grpc::ChannelCredentials> JoinChannelCredentials(std::string bundle_sha256,
                                                                 const Clock* clock);

// A channel with Capstan's settings: keepalive, bounded messages, jittered reconnects within 5 s,
// no proxy. `address` is `host:port` or any gRPC target. Connects on first use.
std::shared_ptr<grpc::Channel> Dial(const std::string& address,
                                    std::shared_ptr<grpc::ChannelCredentials> credentials);
std::shared_ptr<grpc::Channel> Dial(const std::string& address,
                                    std::shared_ptr<const Identity> identity, const Clock* clock,
                                    absl::string_view expected_peer);

}  // namespace capstan::rpc

#endif  // CAPSTAN_LIBS_RPC_CREDENTIALS_H_
