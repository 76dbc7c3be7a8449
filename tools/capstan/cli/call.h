#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_CALL_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_CALL_H_

#include <algorithm>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "grpcpp/client_context.h"
#include "libs/rpc/call.h"
#include "libs/rpc/status_conversion.h"
#include "libs/time/clock.h"

namespace capstan::cli {

// A blocking unary call. UNAVAILABLE is tried again, with back-off, until `time_out` is over: a
// part that is being restarted should not fail a person's command. Every request that changes
// something bears a request_id or is idempotent, so that trying again is safe.
template <typename Stub, typename Request, typename Response>
absl::StatusOr<Response> Call(Stub* stub,
                              grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                           Response*),
                              const Request& request, const Clock* clock, absl::Duration time_out) {
  const BootTime deadline = clock->Read().boot + time_out;
  absl::Duration pause = absl::Milliseconds(100);
  while (true) {
    const absl::Duration left = deadline - clock->Read().boot;
    grpc::ClientContext context;
    rpc::SetDeadline(context, std::max(left, absl::Milliseconds(1)));
    Response response;
    const grpc::Status status = (stub->*method)(&context, request, &response);
    if (status.ok()) return response;
    if (status.error_code() != grpc::StatusCode::UNAVAILABLE || left < 2 * pause) {
      return rpc::FromGrpcStatus(status);
    }
    absl::SleepFor(pause);
    pause = std::min(pause * 2, absl::Seconds(1));
  }
}

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_CALL_H_
