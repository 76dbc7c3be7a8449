#include "integration/access/raw_call.h"

#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/empty.pb.h"
#include "google/protobuf/unknown_field_set.h"
#include "grpcpp/client_context.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/security/tls_credentials_options.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/slice.h"
#include "libs/rpc/call.h"
#include "libs/rpc/channel_settings.h"
#include "libs/rpc/peer.h"

namespace capstan::integration {
namespace {

// One request, and the first answer if there is one.
grpc::Status Exchange(const std::shared_ptr<grpc::Channel>& channel, const std::string& path,
                      const std::string& bytes, absl::Duration patience,
                      const CallMetadata& metadata, std::string* answer) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  rpc::SetDeadline(context, patience);
  if (!metadata.trace_id.empty()) {
    context.AddMetadata("traceparent",
                        absl::StrCat("00-", metadata.trace_id, "-00000000000000a1-01"));
  }
  if (!metadata.grant.empty()) context.AddMetadata(rpc::kPlacementGrant, metadata.grant);
  if (!metadata.bearer.empty()) {
    context.AddMetadata("authorization", absl::StrCat("Bearer ", metadata.bearer));
  }
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareCall(&context, path, &queue);
  // Every step ends: the call has a deadline.
  const auto step = [&queue] {
    void* tag = nullptr;
    bool good = false;
    return queue.Next(&tag, &good) && good;
  };
  call->StartCall(nullptr);
  bool answered = false;
  if (step()) {
    const grpc::Slice slice(bytes);
    call->WriteLast(grpc::ByteBuffer(&slice, 1), grpc::WriteOptions(), nullptr);
    step();
    grpc::ByteBuffer received;
    call->Read(&received, nullptr);
    answered = step();
    if (answered) {
      std::vector<grpc::Slice> slices;
      if (received.Dump(&slices).ok()) {
        for (const grpc::Slice& part : slices) {
          answer->append(reinterpret_cast<const char*>(part.begin()), part.size());
        }
      }
    }
  }
  if (answered) context.TryCancel();
  grpc::Status status;
  call->Finish(&status, nullptr);
  step();
  queue.Shutdown();
  void* tag = nullptr;
  bool good = false;
  while (queue.Next(&tag, &good)) {
  }
  return answered ? grpc::Status::OK : status;
}

}  // namespace

std::shared_ptr<grpc::Channel> DialAlone(const std::string& address,
                                         std::shared_ptr<grpc::ChannelCredentials> credentials) {
  grpc::ChannelArguments settings = rpc::ChannelSettings();
  settings.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address, credentials, settings);
}

std::shared_ptr<grpc::ChannelCredentials> StrangersCredentials() {
  grpc::experimental::TlsChannelCredentialsOptions options;
  options.set_verify_server_certs(false);
  options.set_check_call_host(false);
  options.set_certificate_verifier(std::make_shared<grpc::experimental::NoOpCertificateVerifier>());
  return grpc::experimental::TlsCredentials(options);
}

grpc::Status RawCall(const std::shared_ptr<grpc::Channel>& channel, const std::string& path,
                     const google::protobuf::Message& request, absl::Duration patience,
                     const CallMetadata& metadata) {
  std::string answer;
  return Exchange(channel, path, request.SerializeAsString(), patience, metadata, &answer);
}

grpc::Status RawAnswer(const std::shared_ptr<grpc::Channel>& channel, const std::string& path,
                       const google::protobuf::Message& request, absl::Duration patience,
                       google::protobuf::Message* answer, const CallMetadata& metadata) {
  std::string bytes;
  const grpc::Status status =
      Exchange(channel, path, request.SerializeAsString(), patience, metadata, &bytes);
  if (status.ok() && !answer->ParseFromString(bytes)) {
    return grpc::Status(grpc::StatusCode::INTERNAL, "the answer can't be parsed");
  }
  return status;
}

OpenCall::OpenCall(const std::shared_ptr<grpc::Channel>& channel, const std::string& path,
                   absl::Duration patience) {
  rpc::SetDeadline(context_, patience);
  grpc::GenericStub stub(channel);
  call_ = stub.PrepareCall(&context_, path, &queue_);
  call_->StartCall(nullptr);
  begun_ = Step();
}

OpenCall::~OpenCall() {
  Cancel();
  AwaitEnd();
  queue_.Shutdown();
  void* tag = nullptr;
  bool good = false;
  while (queue_.Next(&tag, &good)) {
  }
}

bool OpenCall::Step() {
  void* tag = nullptr;
  bool good = false;
  return queue_.Next(&tag, &good) && good;
}

bool OpenCall::Send(const google::protobuf::Message& message, bool last) {
  if (!begun_ || over_) return false;
  const grpc::Slice slice(message.SerializeAsString());
  const grpc::ByteBuffer bytes(&slice, 1);
  if (last) {
    call_->WriteLast(bytes, grpc::WriteOptions(), nullptr);
  } else {
    call_->Write(bytes, nullptr);
  }
  return Step();
}

bool OpenCall::Receive() {
  if (!begun_ || over_) return false;
  grpc::ByteBuffer received;
  call_->Read(&received, nullptr);
  return Step();
}

void OpenCall::Cancel() { context_.TryCancel(); }

grpc::Status OpenCall::AwaitEnd() {
  if (over_) return grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "asked twice");
  while (Receive()) {
  }
  over_ = true;
  grpc::Status status;
  call_->Finish(&status, nullptr);
  Step();
  return status;
}

std::set<std::string> ServedBy(const std::shared_ptr<grpc::Channel>& channel) {
  // grpc.reflection.v1alpha: `list_services` is field 7 of the request; the answer's field 6 holds
  // services (1) with a name (1). Its generated code is not in Debian's headers.
  std::string bytes;
  const grpc::Status status =
      Exchange(channel, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
               std::string("\x3a\x01*", 3), absl::Seconds(10), {}, &bytes);
  std::set<std::string> names;
  google::protobuf::Empty response;
  if (!status.ok() || !response.ParseFromString(bytes)) return names;
  const auto& top = response.GetReflection()->GetUnknownFields(response);
  for (int i = 0; i < top.field_count(); ++i) {
    google::protobuf::Empty list;
    if (top.field(i).number() != 6 || !list.ParseFromString(top.field(i).length_delimited())) {
      continue;
    }
    const auto& services = list.GetReflection()->GetUnknownFields(list);
    for (int k = 0; k < services.field_count(); ++k) {
      google::protobuf::Empty service;
      service.ParseFromString(services.field(k).length_delimited());
      const auto& fields = service.GetReflection()->GetUnknownFields(service);
      for (int m = 0; m < fields.field_count(); ++m) {
        if (fields.field(m).number() == 1) names.insert(fields.field(m).length_delimited());
      }
    }
  }
  return names;
}

}  // namespace capstan::integration
