// What is seen of the calls of this process: its access log and its spans, hooked into every server
// and every channel that libs/rpc makes.
#ifndef CAPSTAN_LIBS_RPC_OBSERVATION_H_
#define CAPSTAN_LIBS_RPC_OBSERVATION_H_

#include <memory>
#include <vector>

#include "absl/types/optional.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/client_interceptor.h"
#include "grpcpp/support/server_interceptor.h"
#include "libs/rpc/access_log.h"
#include "libs/trace/context.h"
#include "libs/trace/tracer.h"

namespace capstan::rpc {

struct Observation {
  // Null: no line for any call.
  std::shared_ptr<AccessLog> access_log;
  // Null: traces end here.
  std::shared_ptr<trace::Tracer> tracer;
};

// For main(): servers started and channels dialled from now on are observed so. Process-wide, as
// what is seen of calls is a matter of the process and not of what it serves. What it holds lives
// on as long as gRPC knows of a call.
void SetObservation(Observation observation);

// For Server::Start; empty if nothing is observed. Each call that is answered (but those of gRPC's
// own services) is a span, child of the caller's, or the beginning of a trace; and a line of the
// access log.
std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>>
MakeServerInterceptors();

// For Dial; empty without a tracer. Each call is a span, child of trace::Scope::Current(), and
// carries its own context as `traceparent`. Calls without a current context are nobody's: where
// spans are recorded they begin a trace as such, else they carry nothing.
std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>>
MakeClientInterceptors();

// The span of the call that a handler answers; without a tracer the caller's. absl::nullopt if the
// call belongs to no trace.
absl::optional<trace::Context> TraceOf(const grpc::ServerContextBase& context);

}  // namespace capstan::rpc

#endif  // CAPSTAN_LIBS_RPC_OBSERVATION_H_
