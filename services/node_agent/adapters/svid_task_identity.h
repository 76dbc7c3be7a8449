#ifndef CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_SVID_TASK_IDENTITY_H_
#define CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_SVID_TASK_IDENTITY_H_

#include <memory>

#include "grpcpp/channel.h"
#include "libs/strand/strand.h"
#include "services/node_agent/adapters/grant_book.h"
#include "services/node_agent/ports/task_identity.h"

namespace capstan::node_agent {

// Asks credentials for Task SVIDs under fresh keys; `files` runs what blocks. The files lie below
// `<task folder>/identity`, as identity_folder.h says. Shows the grants of `grants`, which must
// outlive it, and may be null.
std::unique_ptr<TaskIdentity> MakeSvidTaskIdentity(const std::shared_ptr<grpc::Channel>& channel,
                                                   Strand* strand, Strand* files,
                                                   const GrantBook* grants);

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_SVID_TASK_IDENTITY_H_
