#ifndef CAPSTAN_INTEGRATION_KUBE_STAND_IN_KUBELET_H_
#define CAPSTAN_INTEGRATION_KUBE_STAND_IN_KUBELET_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "integration/kube/real_client.h"
#include "tools/testenv/loopback_port.h"
#include "tools/testenv/server_process.h"

namespace capstan::kube::testing {

// What an API server asks for exec, attach, port-forward and logs of the Pods of a Node:
// tools/testenv/stand_in_kubelet, which runs the commands as processes of this machine. For one
// thread, which must outlive it. A test that uses it has //tools/testenv:stand_in_kubelet_binary
// as data.
class StandInKubelet {
 public:
  // Containers by name: the command, for sh, that each runs from now on.
  using Containers = std::vector<std::pair<std::string, std::string>>;

  static absl::StatusOr<std::unique_ptr<StandInKubelet>> Start(const Containers& containers);

  // For KubernetesCluster::Options, so that the API server and it know each other.
  std::vector<std::string> api_server_flags() const;
  // Registers the Node.
  absl::Status Register(RealClient* client) const;
  // Makes a Pod that runs on the Node, with a container of each name.
  absl::Status RunPod(RealClient* client, const std::string& ns, const std::string& name,
                      const std::vector<std::string>& containers) const;

 private:
  StandInKubelet(std::string folder, testenv::LoopbackPort port)
      : folder_(std::move(folder)), port_(std::move(port)) {}

  const std::string folder_;
  const testenv::LoopbackPort port_;
  std::unique_ptr<testenv::ServerProcess> process_;
};

}  // namespace capstan::kube::testing

#endif  // CAPSTAN_INTEGRATION_KUBE_STAND_IN_KUBELET_H_
