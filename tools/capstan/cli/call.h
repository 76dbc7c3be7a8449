#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_CALL_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_CALL_H_

#include <algorithm>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/client_context.h"
#include "libs/random/random.h"
#include "libs/rpc/call.h"
#include "libs/rpc/status_conversion.h"
#include "libs/time/clock.h"
#include "tools/capstan/cli/invocation.h"

namespace capstan::cli {

// On what terms a unary call is made.
struct CallTerms {
  const Clock* clock = nullptr;
  // Of the calling thread.
  Random* random = nullptr;
  // Bound of all attempts together.
  absl::Duration time_out;
};

inline CallTerms Terms(const Invocation& invocation) {
  return {invocation.clock, invocation.random, invocation.time_out};
}

// Waits between the attempts of one unary call, by the back-off of libs/rpc. The only place in
// which a command waits for time to pass rather than for news.
class AttemptPause {
 public:
  explicit AttemptPause(const CallTerms& terms);
  ~AttemptPause();
  // What is left of the time-out.
  absl::Duration left() const;
  // False, at once, if the time-out would be over before the next attempt.
  bool Wait();

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

// A blocking unary call. UNAVAILABLE is tried again, with back-off, until the time-out is over: a
// part that is being restarted should not fail a person's command. Every request that changes
// something bears a request_id or is idempotent, so that trying again is safe.
template <typename Stub, typename Request, typename Response>
absl::StatusOr<Response> Call(Stub* stub,
                              grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                           Response*),
                              const Request& request, const CallTerms& terms) {
  AttemptPause pause(terms);
  while (true) {
    grpc::ClientContext context;
    rpc::SetDeadline(context, std::max(pause.left(), absl::Milliseconds(1)));
    Response response;
    const grpc::Status status = (stub->*method)(&context, request, &response);
    if (status.ok()) return response;
    if (status.error_code() != grpc::StatusCode::UNAVAILABLE || !pause.Wait()) {
      return rpc::FromGrpcStatus(status);
    }
  }
}

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_CALL_H_
