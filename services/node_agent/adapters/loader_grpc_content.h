#ifndef CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_LOADER_GRPC_CONTENT_H_
#define CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_LOADER_GRPC_CONTENT_H_

#include <memory>

#include "grpcpp/channel.h"
#include "libs/metrics/registry.h"
#include "services/node_agent/adapters/grant_book.h"
#include "services/node_agent/ports/loader_content.h"

namespace capstan::node_agent {

// data_loader's ContentService over gRPC. `registry` may be null; so may `grants`, whose grants are
// shown with what Tasks have written, and which must outlive it.
std::unique_ptr<LoaderContent> MakeLoaderGrpcContent(const std::shared_ptr<grpc::Channel>& channel,
                                                     metrics::Registry* registry,
                                                     const GrantBook* grants);

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_LOADER_GRPC_CONTENT_H_
