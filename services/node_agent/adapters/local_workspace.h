#ifndef CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_LOCAL_WORKSPACE_H_
#define CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_LOCAL_WORKSPACE_H_

#include <memory>

#include "libs/strand/strand.h"
#include "services/node_agent/ports/workspace.h"

namespace capstan::node_agent {

// Files of this machine; `files` runs what blocks.
std::unique_ptr<Workspace> MakeLocalWorkspace(Strand* strand, Strand* files);

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_LOCAL_WORKSPACE_H_
