#ifndef CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_CREDENTIALS_TASK_TOKENS_H_
#define CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_CREDENTIALS_TASK_TOKENS_H_

#include <memory>

#include "grpcpp/channel.h"
#include "libs/strand/strand.h"
#include "services/node_agent/ports/task_tokens.h"

namespace capstan::node_agent {

// Asks credentials: ES256 for Tasks, RS256 for service accounts, whose tokens are for clouds that
// may take nothing else.
std::unique_ptr<TaskTokens> MakeCredentialsTaskTokens(const std::shared_ptr<grpc::Channel>& channel,
                                                      Strand* strand);

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_CREDENTIALS_TASK_TOKENS_H_
