#ifndef CAPSTAN_LIBS_RPC_UNARY_H_
#define CAPSTAN_LIBS_RPC_UNARY_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "libs/auth/access.h"
#include "libs/auth/principal.h"
#include "libs/rpc/admission.h"
#include "libs/rpc/finish.h"
#include "libs/rpc/peer.h"
#include "libs/rpc/status_conversion.h"

namespace capstan::rpc {

// What a handler knows about the call it answers.
struct Call {
  auth::Caller caller;
  // Valid until Finish is called; for metadata and IsCancelled().
  grpc::CallbackServerContext* context = nullptr;
};

// The reactor behind HandleUnary; deletes itself when the call is over.
class UnaryReactor final : public grpc::ServerUnaryReactor {
 public:
  void Hold(Admission::Ticket ticket) { ticket_ = std::move(ticket); }
  rpc::Finish MakeFinish() {
    return rpc::Finish([this](const absl::Status& status) { Finish(ToGrpcStatus(status)); });
  }
  void OnDone() override { delete this; }
  // Not API, says gRPC 1.51, but for reactors whose reactions are trivial, as its own default one
  // is. Else each call that is over waits for a thread of an executor to run OnDone: with 4,000
  // under way at clients 4,700 more, of 13 KiB each, waited for that (docs/reliability.md).
  bool InternalInlineable() override { return true; }

 private:
  Admission::Ticket ticket_;
};

// Answers a unary call in the one order: authorise, admit, validate, act, Status.
//
//   validate  absl::Status(const Request&): OK or, by status::FieldErrors, everything that is
//   wrong.
//             Runs only for callers who are allowed.
//   act       void(Call, const Request&, Response*, Finish): usually posts to the engine's strand
//   and
//             calls Finish there, once, from any thread. Request and response live until then. A
//             Finish that is destroyed uncalled answers UNAVAILABLE.
//
//   grpc::ServerUnaryReactor* GetJob(grpc::CallbackServerContext* context,
//                                    const GetJobRequest* request, Job* response) override {
//     return rpc::HandleUnary(context, access_, "/capstan.scheduler.v1.JobService/GetJob", request,
//                             response, ValidateGetJob,
//                             [this](rpc::Call call, const GetJobRequest& request, Job* job,
//                                    rpc::Finish finish) { … });
//   }
template <typename Request, typename Response, typename Validate, typename Act>
grpc::ServerUnaryReactor* HandleUnary(grpc::CallbackServerContext* context, auth::Access* access,
                                      absl::string_view method, const Request* request,
                                      Response* response, Validate validate, Act act) {
  auto* reactor = new UnaryReactor;
  absl::StatusOr<auth::Caller> caller = access->Authorize(PeerOf(*context), method, request);
  absl::StatusOr<Admission::Ticket> ticket = Admit(caller, Admission::Kind::kCall);
  absl::Status status = ticket.status();
  if (ticket.ok()) {
    reactor->Hold(*std::move(ticket));
    status = validate(*request);
  }
  if (!status.ok()) {
    reactor->Finish(ToGrpcStatus(status));
    return reactor;
  }
  act(Call{*std::move(caller), context}, *request, response, reactor->MakeFinish());
  return reactor;
}

// For requests in which nothing can be wrong.
struct NothingToValidate {
  template <typename Request>
  absl::Status operator()(const Request&) const {
    return absl::OkStatus();
  }
};

}  // namespace capstan::rpc

#endif  // CAPSTAN_LIBS_RPC_UNARY_H_
