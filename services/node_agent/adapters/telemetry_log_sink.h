#ifndef CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_TELEMETRY_LOG_SINK_H_
#define CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_TELEMETRY_LOG_SINK_H_

#include <memory>

#include "grpcpp/channel.h"
#include "libs/strand/strand.h"
#include "services/node_agent/adapters/grant_book.h"
#include "services/node_agent/ports/log_sink.h"

namespace capstan::node_agent {

// telemetry over gRPC; shows the grants of `grants`, which must outlive it, and may be null.
std::unique_ptr<LogSink> MakeTelemetryLogSink(const std::shared_ptr<grpc::Channel>& channel,
                                              Strand* strand, const GrantBook* grants);

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_TELEMETRY_LOG_SINK_H_
