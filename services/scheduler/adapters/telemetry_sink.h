#ifndef CAPSTAN_SERVICES_SCHEDULER_ADAPTERS_TELEMETRY_SINK_H_
#define CAPSTAN_SERVICES_SCHEDULER_ADAPTERS_TELEMETRY_SINK_H_

#include <memory>
#include <vector>

#include "grpcpp/channel.h"
#include "libs/strand/strand.h"
#include "proto/capstan/telemetry/v1/stream.grpc.pb.h"
#include "services/scheduler/ports/event_sink.h"

namespace capstan::scheduler {

// Appends Job events to `projects/{p}/jobs/{j}/streams/events` of telemetry. The producer is
// `scheduler/<store incarnation>` and its sequence the outbox's, so that what is sent again after a
// crash is dropped there.
class TelemetrySink final : public EventSink {
 public:
  TelemetrySink(std::shared_ptr<grpc::Channel> channel, Strand* strand);

  void Append(int64_t incarnation, std::vector<Entry> entries,
              absl::AnyInvocable<void(absl::Status)> taken) override;

 private:
  const std::shared_ptr<capstan::telemetry::v1::StreamService::Stub> stub_;
  Strand* const strand_;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_ADAPTERS_TELEMETRY_SINK_H_
