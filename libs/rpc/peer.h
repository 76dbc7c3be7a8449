#ifndef CAPSTAN_LIBS_RPC_PEER_H_
#define CAPSTAN_LIBS_RPC_PEER_H_

#include "grpcpp/server_context.h"
#include "libs/auth/principal.h"

namespace capstan::rpc {

// Metadata in which a Node shows its PlacementGrant.
inline constexpr char kPlacementGrant[] = "capstan-placement-grant-bin";

// Who is on the other side of a call, from the certificate that the handshake verified. Without a
// certificate, or on a connection that is not TLS, the id is empty. With the grant that was shown.
// Thread-safe.
auth::Peer PeerOf(const grpc::ServerContextBase& context);

}  // namespace capstan::rpc

#endif  // CAPSTAN_LIBS_RPC_PEER_H_
