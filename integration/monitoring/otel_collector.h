#ifndef CAPSTAN_INTEGRATION_MONITORING_OTEL_COLLECTOR_H_
#define CAPSTAN_INTEGRATION_MONITORING_OTEL_COLLECTOR_H_

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/testenv/loopback_port.h"
#include "tools/testenv/server_process.h"

namespace capstan::integration {

// A span as the collector has understood it. Ids in lower-case hex.
struct ReceivedSpan {
  std::string service;
  std::string trace_id;
  std::string span_id;
  // Empty for the root of a trace.
  std::string parent_id;
  std::string name;
  // OTLP's number: 1 internal, 2 server, 3 client.
  int kind = 0;
  std::string begin_ns;
  std::string end_ns;
  // Values as text.
  std::map<std::string, std::string> attributes;
};

// The OpenTelemetry Collector with its OTLP receiver over gRPC, which writes what it has received
// into a file. For one thread, which must outlive it.
class OtelCollector {
 public:
  // Keeps its file and its log in `folder`. Does not wait for it.
  static absl::StatusOr<std::unique_ptr<OtelCollector>> Start(const std::string& folder);

  // Of the receiver, `127.0.0.1:<port>`.
  std::string address() const;
  // Whether somebody listens there.
  bool Ready() const;
  // Everything received so far, in no order.
  std::vector<ReceivedSpan> Spans() const;

 private:
  OtelCollector(testenv::LoopbackPort port, std::string folder)
      : port_(std::move(port)), folder_(std::move(folder)) {}

  const testenv::LoopbackPort port_;
  const std::string folder_;
  std::unique_ptr<testenv::ServerProcess> process_;
};

}  // namespace capstan::integration

#endif  // CAPSTAN_INTEGRATION_MONITORING_OTEL_COLLECTOR_H_
