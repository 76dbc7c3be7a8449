#ifndef CAPSTAN_SERVICES_NODE_AGENT_PORTS_LOG_SINK_H_
#define CAPSTAN_SERVICES_NODE_AGENT_PORTS_LOG_SINK_H_

#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "proto/capstan/telemetry/v1/stream.pb.h"

namespace capstan::node_agent {

// Where records of Tasks go. Does not block; the callback runs on the agent's strand.
class LogSink {
 public:
  virtual ~LogSink() = default;
  // OK once the records are on disk over there. A record already there is dropped there, by
  // producer and sequence. Less than 1 MiB.
  virtual void Append(const std::string& stream,
                      std::vector<capstan::telemetry::v1::Record> records,
                      absl::AnyInvocable<void(absl::Status)> done) = 0;
};

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_PORTS_LOG_SINK_H_
