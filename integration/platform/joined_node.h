// One more Node of a TestPlatform's Cluster, on the same machine: an agent that joins as that of
// another host would, with labels, taints and devices that the platform's own Node cannot have.
#ifndef CAPSTAN_INTEGRATION_PLATFORM_JOINED_NODE_H_
#define CAPSTAN_INTEGRATION_PLATFORM_JOINED_NODE_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "integration/platform/test_platform.h"
#include "tools/capstan/dev/process.h"

namespace capstan::integration {

// Failures are GoogleTest's. The platform must outlive it.
class JoinedNode {
 public:
  // `config`: lines of NodeAgentConfig, e.g. `labels: {capstan.dev/rack: r1}`. Starts the agent and
  // waits until the Node takes Tasks. `number`: of the Nodes of one platform each has another.
  JoinedNode(TestPlatform* platform, absl::string_view name, int number, absl::string_view config);
  // Ends its Tasks and the agent.
  ~JoinedNode();
  JoinedNode(const JoinedNode&) = delete;
  JoinedNode& operator=(const JoinedNode&) = delete;

 private:
  TestPlatform* const platform_;
  const std::string folder_;
  const std::string cgroup_;
  absl::optional<dev::Child> agent_;
};

}  // namespace capstan::integration

#endif  // CAPSTAN_INTEGRATION_PLATFORM_JOINED_NODE_H_
