#ifndef CAPSTAN_INTEGRATION_FLEET_NETWORK_H_
#define CAPSTAN_INTEGRATION_FLEET_NETWORK_H_

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "tools/capstan/dev/process.h"

namespace capstan::integration {

// Hosts of a test's own: network namespaces, each with a veth to one bridge of this machine, on
// which the machine has an address too. Needs root and iproute2 and nftables. Gone, with the
// processes' connections, when destroyed. Nothing outside of it is touched.
class Network {
 public:
  // True, or why not.
  static absl::optional<std::string> Unable();

  // `hosts` namespaces in a /24 of 10.0.0.0/8 that nobody on this machine uses.
  static absl::StatusOr<std::unique_ptr<Network>> Create(int hosts);
  ~Network();
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  int hosts() const { return hosts_; }
  // The machine's address on the bridge.
  std::string own_address() const { return prefix_ + "1"; }
  std::string address(int host) const { return prefix_ + std::to_string(11 + host); }
  // Put before a command line, this runs it on the host.
  std::vector<std::string> On(int host) const;

  // Packets of one direction, or both, are dropped at the host's own side.
  enum class Way { kBoth, kFromHost, kToHost };
  absl::Status Cut(int host, Way way);
  // Of the packets that reach and leave the host this many in a hundred are lost.
  absl::Status Lose(int host, int percent);
  // Bytes in both directions are held to a rate.
  absl::Status Limit(int host, int kilobits_per_second);
  // What the host's connections to other hosts and this machine carry comes this much later, each
  // way; those that exist already are not slowed. A relay in user space does it, for one host may
  // have netem and the next not.
  absl::Status Delay(int host, absl::Duration delay);
  // The same for what the machine itself sends to all hosts together.
  absl::Status LimitOwn(int kilobits_per_second);
  // Bytes that the host has sent so far, in decimal digits; empty if that can't be read.
  std::string SentBytes(int host) const;
  // Ends what Cut, Lose, Limit and Delay have done. Connections that were delayed end.
  absl::Status Mend(int host);

 private:
  Network(int hosts, std::string id, std::string prefix)
      : hosts_(hosts), id_(std::move(id)), prefix_(std::move(prefix)) {}
  std::string Namespace(int host) const { return "cap" + id_ + "h" + std::to_string(host); }
  // The host's end, and the bridge's.
  std::string Inner(int host) const { return "c" + id_ + "i" + std::to_string(host); }
  std::string Outer(int host) const { return "c" + id_ + "o" + std::to_string(host); }
  std::string Bridge() const { return "c" + id_ + "br"; }
  absl::Status Make();
  absl::Status Filter(int host, const std::string& rules) const;

  void StopRelay(int host);

  std::map<int, dev::Child> relays_;
  const int hosts_;
  const std::string id_;
  const std::string prefix_;
};

}  // namespace capstan::integration

#endif  // CAPSTAN_INTEGRATION_FLEET_NETWORK_H_
