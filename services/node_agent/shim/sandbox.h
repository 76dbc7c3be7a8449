// What a Task's process does to itself before the Task's program is executed, so that the Task is a
// stranger on the machine. Runs in the Task's init only: a single thread, in fresh namespaces.
#ifndef CAPSTAN_SERVICES_NODE_AGENT_SHIM_SANDBOX_H_
#define CAPSTAN_SERVICES_NODE_AGENT_SHIM_SANDBOX_H_

#include <string>

#include "absl/status/status.h"
#include "proto/capstan/nodeagent/v1/shim.pb.h"

namespace capstan::node_agent {

// Gives the mount namespace a root of its own, made on the empty folder `root`: the machine's
// folders read-only, fresh /proc and /dev, private /tmp, /var/tmp, /dev/shm and /run, without what
// the spec hides, with what it mounts. /dev has the device files of the spec's GPUs and of no other.
// Needs CAP_SYS_ADMIN over the namespace. After an error the process must exit.
absl::Status EnterPrivateRoot(const capstan::nodeagent::v1::ShimSpec& spec,
                              const std::string& root);

// Gives up every right: supplementary groups, uid and gid (where root), capabilities, and the way
// to new ones. Makes the process undumpable and leaves core dumps off.
absl::Status DropRights(const capstan::nodeagent::v1::ShimSpec& spec);

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_SHIM_SANDBOX_H_
