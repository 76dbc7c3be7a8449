// The one border between absl::Status, which Capstan uses inside, and gRPC's status on the wire.
#ifndef CAPSTAN_LIBS_RPC_STATUS_CONVERSION_H_
#define CAPSTAN_LIBS_RPC_STATUS_CONVERSION_H_

#include "absl/status/status.h"
#include "grpcpp/support/status.h"
#include "proto/google/rpc/status.pb.h"

namespace capstan::rpc {

// Code, message and payloads; the payloads travel as a google.rpc.Status in the
// `grpc-status-details-bin` trailer. What would not fit into a peer's default header limit (8 KiB)
// is cut: the message to 1 KiB, field violations from the end, then other payloads, never the
// ErrorInfo.
grpc::Status ToGrpcStatus(const absl::Status& status);

// The reverse. Payloads are taken from the details if they parse; a code that is no canonical one
// becomes UNKNOWN.
absl::Status FromGrpcStatus(const grpc::Status& status);

// As a message, uncut: for Operations, records and the local socket.
google::rpc::Status ToStatusProto(const absl::Status& status);
absl::Status FromStatusProto(const google::rpc::Status& proto);

}  // namespace capstan::rpc

#endif  // CAPSTAN_LIBS_RPC_STATUS_CONVERSION_H_
