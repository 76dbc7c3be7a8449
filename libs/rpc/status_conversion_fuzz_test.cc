// Errors as a peer sends them: whatever their details are, reading them gives an error, which goes
// on to the next peer within its limit.
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "grpcpp/support/status.h"
#include "libs/fuzzing/fuzz_input.h"
#include "libs/fuzzing/fuzz_message.h"
#include "libs/rpc/status_conversion.h"
#include "libs/status/error.h"
#include "proto/google/rpc/error_details.pb.h"
#include "proto/google/rpc/status.pb.h"

namespace {

using capstan::fuzzing::FuzzInput;
using capstan::fuzzing::MakeMessage;
using capstan::fuzzing::Require;

template <typename Detail>
void AddDetail(FuzzInput* input, google::rpc::Status* proto) {
  proto->add_details()->PackFrom(MakeMessage<Detail>({"REASON", "capstan.dev", "field"}, input));
}

void Check(const absl::Status& status) {
  Require(!status.ok());
  (void)capstan::status::GetErrorInfo(status);
  (void)capstan::status::GetFieldViolations(status);
  (void)capstan::status::GetRetryDelay(status);
  const absl::Status annotated = capstan::status::Annotate(status, "context");
  Require(annotated.code() == status.code());
  const grpc::Status sent = capstan::rpc::ToGrpcStatus(annotated);
  Require(sent.error_message().size() + sent.error_details().size() < 8 * 1024);
  const absl::Status received = capstan::rpc::FromGrpcStatus(sent);
  Require(received.code() == status.code());
  Require(capstan::status::Reason(received) == capstan::status::Reason(annotated));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  google::rpc::Status proto;
  for (size_t details = input.Below(4); details > 0; --details) {
    switch (input.Below(4)) {
      case 0:
        AddDetail<google::rpc::ErrorInfo>(&input, &proto);
        break;
      case 1:
        AddDetail<google::rpc::BadRequest>(&input, &proto);
        break;
      case 2:
        AddDetail<google::rpc::RetryInfo>(&input, &proto);
        break;
      default:
        capstan::fuzzing::FillMessage({"type.googleapis.com/google.rpc.ErrorInfo"}, &input,
                                      proto.add_details());
    }
  }
  const auto code = static_cast<int>(input.Number());
  proto.set_message(input.Word({"message", ""}));
  proto.set_code(code);
  const absl::Status status = capstan::rpc::FromStatusProto(proto);
  if (!status.ok()) Check(status);
  // gRPC gives canonical codes alone; a message may hold any.
  const grpc::Status raw(static_cast<grpc::StatusCode>(input.Below(17)), "message",
                         input.Flag() ? proto.SerializeAsString() : std::string(input.Rest()));
  const absl::Status received = capstan::rpc::FromGrpcStatus(raw);
  Require(received.ok() == raw.ok());
  if (!received.ok()) Check(received);
  return 0;
}
