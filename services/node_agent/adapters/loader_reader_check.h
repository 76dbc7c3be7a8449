#ifndef CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_LOADER_READER_CHECK_H_
#define CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_LOADER_READER_CHECK_H_

#include <memory>

#include "grpcpp/channel.h"
#include "libs/strand/strand.h"
#include "services/node_agent/ports/reader_check.h"

namespace capstan::node_agent {

// Asks data_loader's PeerService, and remembers for a while who may read. Answers come on `strand`,
// which must outlive it.
std::unique_ptr<ReaderCheck> MakeLoaderReaderCheck(const std::shared_ptr<grpc::Channel>& channel,
                                                   Strand* strand);

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_LOADER_READER_CHECK_H_
