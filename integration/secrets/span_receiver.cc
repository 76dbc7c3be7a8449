#include "integration/secrets/span_receiver.h"

#include "absl/strings/str_cat.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"

namespace capstan::integration {

namespace otlp = ::opentelemetry::proto::collector::trace::v1;

SpanReceiver::SpanReceiver() {
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(this);
  server_ = builder.BuildAndStart();
  address_ = absl::StrCat("127.0.0.1:", port);
}

SpanReceiver::~SpanReceiver() {
  if (server_ != nullptr) server_->Shutdown();
}

std::string SpanReceiver::Received() const {
  absl::MutexLock lock(&mutex_);
  return received_;
}

grpc::Status SpanReceiver::Export(grpc::ServerContext*,
                                  const otlp::ExportTraceServiceRequest* request,
                                  otlp::ExportTraceServiceResponse*) {
  absl::MutexLock lock(&mutex_);
  absl::StrAppend(&received_, request->SerializeAsString(), "\n");
  return grpc::Status::OK;
}

}  // namespace capstan::integration
