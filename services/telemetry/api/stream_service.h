#ifndef CAPSTAN_SERVICES_TELEMETRY_API_STREAM_SERVICE_H_
#define CAPSTAN_SERVICES_TELEMETRY_API_STREAM_SERVICE_H_

#include "libs/auth/access.h"
#include "libs/strand/strand.h"
#include "proto/capstan/telemetry/v1/stream.grpc.pb.h"
#include "services/telemetry/ports/streams.h"

namespace capstan::telemetry {

// capstan.telemetry.v1.StreamService over the engine. A producer's name is stored behind its
// caller's
// (`/svc/scheduler:<producer>`), so that no one can make another's records look like duplicates.
class StreamServiceHandler final : public v1::StreamService::CallbackService {
 public:
  // All must outlive it; `streams` is used on `strand` only.
  StreamServiceHandler(auth::Access* access, Streams* streams, Strand* strand)
      : access_(access), streams_(streams), strand_(strand) {}

  grpc::ServerUnaryReactor* AppendRecords(grpc::CallbackServerContext* context,
                                          const v1::AppendRecordsRequest* request,
                                          v1::AppendRecordsResponse* response) override;
  grpc::ServerUnaryReactor* AppendToStreams(grpc::CallbackServerContext* context,
                                            const v1::AppendToStreamsRequest* request,
                                            v1::AppendToStreamsResponse* response) override;
  grpc::ServerWriteReactor<v1::ReadRecordsResponse>* ReadRecords(
      grpc::CallbackServerContext* context, const v1::ReadRecordsRequest* request) override;

 private:
  auth::Access* const access_;
  Streams* const streams_;
  Strand* const strand_;
};

}  // namespace capstan::telemetry

#endif  // CAPSTAN_SERVICES_TELEMETRY_API_STREAM_SERVICE_H_
