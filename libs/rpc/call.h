#ifndef CAPSTAN_LIBS_RPC_CALL_H_
#define CAPSTAN_LIBS_RPC_CALL_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/client_context.h"
#include "libs/rpc/status_conversion.h"
#include "libs/strand/strand.h"

namespace capstan::rpc {

// Sets the time after which a call fails with DEADLINE_EXCEEDED, counted by gRPC on real time.
void SetDeadline(grpc::ClientContext& context, absl::Duration from_now);

struct CallOptions {
  // Every call has one.
  absl::Duration deadline = absl::Seconds(10);
  // True: wait for a connection up to the deadline instead of failing with UNAVAILABLE at once.
  bool wait_for_ready = false;
  // Sent with the call; keys in lower case: etcd's tokens, a Node's grant.
  std::vector<std::pair<std::string, std::string>> metadata{};
};

// Puts the options into a call's context.
void Apply(const CallOptions& options, grpc::ClientContext& context);

// A unary call under way. Keeping it is optional: without it the call goes on all the same.
class PendingCall {
 public:
  explicit PendingCall(std::weak_ptr<grpc::ClientContext> context) : context_(std::move(context)) {}
  // Best effort; the callback is called in any case, then usually with CANCELLED.
  void Cancel() {
    if (const std::shared_ptr<grpc::ClientContext> context = context_.lock()) context->TryCancel();
  }

 private:
  std::weak_ptr<grpc::ClientContext> context_;
};

// Starts a unary call and posts `done(StatusOr<Response>)` on `strand` when it is over:
//
//   rpc::CallUnary(stub_.get(), &JobService::StubInterface::async_interface::GetJob, request,
//                  {.deadline = absl::Seconds(5)}, strand_,
//                  [this](absl::StatusOr<Job> job) { … });
//
// Nothing needs to outlive the call: a strand that has stopped or gone destroys `done` unrun.
template <typename Stub, typename Async, typename Request, typename Response, typename Done>
PendingCall CallUnary(Stub* stub,
                      void (Async::*method)(grpc::ClientContext*, const Request*, Response*,
                                            std::function<void(grpc::Status)>),
                      Request request, const CallOptions& options, Strand* strand, Done done) {
  struct State {
    State(Request&& request, Done&& done) : request(std::move(request)), done(std::move(done)) {}
    grpc::ClientContext context;
    Request request;
    Response response;
    Done done;
  };
  auto state = std::make_shared<State>(std::move(request), std::move(done));
  Apply(options, state->context);
  Async* async = stub->async();
  (async->*method)(&state->context, &state->request, &state->response,
                   [state, remote = strand->remote()](const grpc::Status& status) {
                     remote.Post([state, status] {
                       if (status.ok()) {
                         state->done(absl::StatusOr<Response>(std::move(state->response)));
                       } else {
                         state->done(absl::StatusOr<Response>(FromGrpcStatus(status)));
                       }
                     });
                   });
  return PendingCall(std::shared_ptr<grpc::ClientContext>(state, &state->context));
}

}  // namespace capstan::rpc

#endif  // CAPSTAN_LIBS_RPC_CALL_H_
