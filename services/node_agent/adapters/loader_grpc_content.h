#ifndef CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_LOADER_GRPC_CONTENT_H_
#define CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_LOADER_GRPC_CONTENT_H_

#include <memory>

#include "grpcpp/channel.h"
#include "libs/metrics/registry.h"
#include "services/node_agent/ports/loader_content.h"

namespace capstan::node_agent {

// data_loader's ContentService over gRPC. `registry` may be null.
std::unique_ptr<LoaderContent> MakeLoaderGrpcContent(const std::shared_ptr<grpc::Channel>& channel,
                                                     metrics::Registry* registry);

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_LOADER_GRPC_CONTENT_H_
