#ifndef CAPSTAN_SERVICES_TELEMETRY_PORTS_RECORD_SINK_H_
#define CAPSTAN_SERVICES_TELEMETRY_PORTS_RECORD_SINK_H_

#include "absl/status/status.h"
#include "libs/strand/strand.h"
#include "proto/capstan/telemetry/v1/stream.pb.h"

namespace capstan::telemetry {

// Where the records that one reader asked for go. Used on the engine's strand.
class RecordSink {
 public:
  virtual ~RecordSink() = default;

  // RESOURCE_EXHAUSTED: the reader is slow and this response was not taken: offer it again after
  // NotifyDrained. Any other error: the reader is gone.
  virtual absl::Status Write(const v1::ReadRecordsResponse& response) = 0;
  // Posts `task` to the engine's strand once everything written has been sent.
  virtual void NotifyDrained(Strand::Task task) = 0;
  // Posts `task` to the engine's strand once the reader is gone.
  virtual void NotifyClosed(Strand::Task task) = 0;
  virtual void Finish(const absl::Status& status) = 0;
};

}  // namespace capstan::telemetry

#endif  // CAPSTAN_SERVICES_TELEMETRY_PORTS_RECORD_SINK_H_
