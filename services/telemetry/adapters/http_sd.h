#ifndef CAPSTAN_SERVICES_TELEMETRY_ADAPTERS_HTTP_SD_H_
#define CAPSTAN_SERVICES_TELEMETRY_ADAPTERS_HTTP_SD_H_

#include <string>

#include "services/telemetry/core/records.pb.h"

namespace capstan::telemetry {

// The list as Prometheus' HTTP service discovery wants it (prometheus.io, "HTTP SD"): a JSON array,
// whole, `[]` if there is nothing; UTF-8. Labels of each target, those that are empty left out:
//   __meta_capstan_service   `scheduler`, …, `executor`, `node_agent`
//   __meta_capstan_cluster   of executors and Nodes
//   __meta_capstan_node      of Nodes
//   __meta_capstan_replica   of services: the replica's own gRPC address
std::string RenderHttpSd(const core::ScrapeTargetList& targets);

}  // namespace capstan::telemetry

#endif  // CAPSTAN_SERVICES_TELEMETRY_ADAPTERS_HTTP_SD_H_
