#ifndef CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_LOADER_DATA_ACCESS_H_
#define CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_LOADER_DATA_ACCESS_H_

#include <memory>
#include <string>

#include "grpcpp/channel.h"
#include "libs/strand/strand.h"
#include "services/node_agent/adapters/grant_book.h"
#include "services/node_agent/ports/data_access.h"

namespace capstan::node_agent {

// data_loader over gRPC, for a Node that shares the file system of its Site. What is asked for a
// Task shows its grant from `grants`, which must outlive it, and may be null for none.
std::unique_ptr<DataAccess> MakeLoaderDataAccess(const std::shared_ptr<grpc::Channel>& channel,
                                                 Strand* strand, const GrantBook* grants);

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_LOADER_DATA_ACCESS_H_
