#ifndef CAPSTAN_INTEGRATION_SECRETS_SPAN_RECEIVER_H_
#define CAPSTAN_INTEGRATION_SECRETS_SPAN_RECEIVER_H_

#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "grpcpp/server.h"
#include "grpcpp/support/status.h"
#include "proto/opentelemetry/collector/trace/v1/trace_service.grpc.pb.h"

namespace capstan::integration {

// An OTLP receiver that keeps what it was sent as it came.
class SpanReceiver final
    : public opentelemetry::proto::collector::trace::v1::TraceService::Service {
 public:
  SpanReceiver();
  ~SpanReceiver() override;

  // `127.0.0.1:<port>`.
  const std::string& address() const { return address_; }
  // The requests' bytes, one after the other.
  std::string Received() const;

 private:
  grpc::Status Export(
      grpc::ServerContext* context,
      const opentelemetry::proto::collector::trace::v1::ExportTraceServiceRequest* request,
      opentelemetry::proto::collector::trace::v1::ExportTraceServiceResponse* response) override;

  mutable absl::Mutex mutex_;
  std::string received_ ABSL_GUARDED_BY(mutex_);
  std::string address_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace capstan::integration

#endif  // CAPSTAN_INTEGRATION_SECRETS_SPAN_RECEIVER_H_
