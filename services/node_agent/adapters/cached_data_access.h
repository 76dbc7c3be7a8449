#ifndef CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_CACHED_DATA_ACCESS_H_
#define CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_CACHED_DATA_ACCESS_H_

#include <memory>

#include "grpcpp/channel.h"
#include "libs/strand/strand.h"
#include "services/node_agent/adapters/grant_book.h"
#include "services/node_agent/adapters/node_cache.h"
#include "services/node_agent/ports/data_access.h"

namespace capstan::node_agent {

// data_loader over gRPC, for a Node that does not share its file system: what Tasks read is brought
// to the Node's cache, what they write is sent. A pin holds content at the loader's Site and here.
// `strand`, `cache` and `grants`, whose grants are shown, must outlive it; the last may be null.
std::unique_ptr<DataAccess> MakeCachedDataAccess(const std::shared_ptr<grpc::Channel>& channel,
                                                 Strand* strand, NodeCache* cache,
                                                 const GrantBook* grants);

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_CACHED_DATA_ACCESS_H_
