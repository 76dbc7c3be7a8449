#ifndef CAPSTAN_SERVICES_TELEMETRY_PORTS_RESPONSE_SINK_H_
#define CAPSTAN_SERVICES_TELEMETRY_PORTS_RESPONSE_SINK_H_

#include "absl/status/status.h"
#include "libs/strand/strand.h"

namespace capstan::telemetry {

// Where the responses to one reader go. Used on the engine's strand; may be destroyed anywhere. Its
// destruction ends the reader with UNAVAILABLE if Finish was not called: whoever drops a sink,
// a strand that stops included, leaves no one waiting.
template <typename Response>
class ResponseSink {
 public:
  ResponseSink() = default;
  virtual ~ResponseSink() = default;
  ResponseSink(const ResponseSink&) = delete;
  ResponseSink& operator=(const ResponseSink&) = delete;

  // RESOURCE_EXHAUSTED: the reader is slow and this response was not taken: offer it again after
  // NotifyDrained. Any other error: the reader is gone.
  virtual absl::Status Write(const Response& response) = 0;
  // Posts `task` to the engine's strand once everything written has been sent.
  virtual void NotifyDrained(Strand::Task task) = 0;
  // Posts `task` to the engine's strand once the reader is gone.
  virtual void NotifyClosed(Strand::Task task) = 0;
  // Ends the reader once what was written is sent. Later uses are ignored.
  virtual void Finish(const absl::Status& status) = 0;
};

}  // namespace capstan::telemetry

#endif  // CAPSTAN_SERVICES_TELEMETRY_PORTS_RESPONSE_SINK_H_
