// A platform over several hosts for a test: the services as programs of their own on this machine,
// their truth in a real etcd, and node agents on hosts that have only the network in common.
#ifndef CAPSTAN_INTEGRATION_FLEET_FLEET_H_
#define CAPSTAN_INTEGRATION_FLEET_FLEET_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "integration/fleet/network.h"
#include "integration/platform/test_platform.h"
#include "libs/time/clock.h"
#include "tools/capstan/dev/process.h"
#include "tools/testenv/etcd_server.h"

namespace capstan::integration {

// Failures are GoogleTest's. One thread, which must outlive it.
class Fleet {
 public:
  // The services' programs of this version: `<service>/<service>_main`.
  static constexpr char kOwnServices[] = "services";

  struct Options {
    int hosts = 3;
    int etcd_members = 3;
    int schedulers = 2;
    int data_loaders = 1;
    int cluster_managers = 1;
    // Folder of the services' programs that are started first.
    std::string services = kOwnServices;
    // Lines of PlatformConfig.
    absl::string_view config = "";
    // Devices named `slot` that each host has: one a Task, to spread a gang.
    int slots = 2;
    // The last host is a Cluster of its own, `east`, with its executor on it and twice the slots.
    bool second_cluster = false;
    // Then the Cluster's executor has one more host to itself, the last, and `east`'s Node is the
    // one before.
    bool executor_apart = false;
  };
  static absl::optional<std::string> Unable();

  explicit Fleet(Options options);
  // Stops all; checks that nothing is left.
  ~Fleet();
  Fleet(const Fleet&) = delete;
  Fleet& operator=(const Fleet&) = delete;

  // Starts everything and waits until every host is a Node. False, with failures, if it can't.
  bool Start();

  TestPlatform& platform() { return *platform_; }
  Network& network() { return *network_; }
  testenv::EtcdServer& etcd() { return *etcd_; }

  // From now on `part`, or with `node_agent` the hosts' agents, is started from the programs in the
  // folder `services`; another replica of its service too, once it is started again.
  void Use(const std::string& services, absl::string_view part);

  // Name of the scheduler's part that leads, by its metrics; empty while none does.
  std::string Leader();
  // Waits until one leads that is not the process `former`; how long that took, absent if it never
  // did. A part that was started anew is another process.
  absl::optional<absl::Duration> AwaitLeaderOtherThan(const dev::ProcessId& former);

  // Starts the host's agent, and its executor if it is a Cluster of its own; the first time with a
  // join token each.
  void StartHost(int host);
  // kill -9 of every process on the host at once, as a power cut would.
  void KillHost(int host);
  // Ends the host's agent and starts it again; its Tasks go on.
  void RestartAgent(int host);
  bool IsNode(int host);
  // The host on which a rank's program runs; -1 if on none.
  int HostOf(const std::string& job, int64_t generation, int rank);

 private:
  struct Host {
    std::string folder;
    std::string cgroup;
    absl::optional<dev::Child> agent;
    absl::optional<dev::Child> executor;
  };

  int nodes() const { return options_.hosts - (options_.executor_apart ? 1 : 0); }
  bool IsEast(int host) const { return options_.second_cluster && host + 1 == nodes(); }
  bool HasExecutor(int host) const { return options_.second_cluster && host + 1 == options_.hosts; }
  std::string ClusterOf(int host) const { return IsEast(host) ? "east" : "local"; }
  // The part of a configuration that every process has, with a join token beside it.
  std::string ProcessConfig(const std::string& folder, const std::string& identity);
  void SpawnOn(int host, absl::string_view service, const std::string& config,
               const std::string& output_file, absl::optional<dev::Child>* child);
  std::string PlatformConfig() const;
  // Where the program to start lies: a link to one version's.
  std::string ProgramOf(absl::string_view service) const;
  std::vector<pid_t> PidsOn(int host) const;
  void StopAgents();

  const Options options_;
  std::unique_ptr<testenv::EtcdServer> etcd_;
  std::unique_ptr<Network> network_;
  std::unique_ptr<TestPlatform> platform_;
  std::vector<Host> hosts_;
};

}  // namespace capstan::integration

#endif  // CAPSTAN_INTEGRATION_FLEET_FLEET_H_
