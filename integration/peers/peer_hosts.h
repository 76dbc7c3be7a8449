// A data_loader on this machine and Nodes on hosts of their own, with real certificates, to see
// what content takes which way.
#ifndef CAPSTAN_INTEGRATION_PEERS_PEER_HOSTS_H_
#define CAPSTAN_INTEGRATION_PEERS_PEER_HOSTS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "integration/fleet/network.h"
#include "libs/rpc/testing/test_authority.h"
#include "proto/capstan/dataloader/v1/content.pb.h"

namespace capstan::integration {

// One thread. Everything ends with it.
class PeerHosts {
 public:
  static absl::optional<std::string> Unable() { return Network::Unable(); }

  // Starts a data_loader whose Site has a version of `bytes` and a few more.
  static absl::StatusOr<std::unique_ptr<PeerHosts>> Start(int hosts, int64_t bytes);
  ~PeerHosts();
  PeerHosts(const PeerHosts&) = delete;
  PeerHosts& operator=(const PeerHosts&) = delete;

  Network& network() { return *network_; }

  // Begins to bring the version to a host, which gives it to others if `peers`.
  absl::Status Fetch(int host, bool peers = true);
  // Hosts whose programs begin from now on let this SPIFFE id in no more.
  void Deny(const std::string& id) { denied_ += id + "\n"; }
  // So does the host's program, which has said that it is done.
  void DenyAt(int host, const std::string& id);
  // Where a host gives to others, and as whom.
  std::string AddressOf(int host) const;
  static std::string PathOf(int host);
  // The version, as it is read for the Job for which all hosts have it.
  const dataloader::v1::ContentRef& content() const { return content_; }
  const rpc::TestAuthority& authority() const;
  // Whom the host's program has refused, a line each; see peer_node.cc.
  std::vector<std::string> RefusedBy(int host) const;
  // How it came.
  struct Fetched {
    double seconds = 0;
    int64_t from_site = 0;
    int64_t from_peers = 0;
  };
  // Waits until it is there, checks every byte, and says how it came.
  absl::StatusOr<Fetched> Await(int host, absl::Duration time_out = absl::Seconds(120));
  // Ends the host's program and removes its cache.
  void Forget(int host);

  // Bytes that data_loader has sent of content, by its metric.
  int64_t SiteSent() const;
  // Bytes that the host has sent over its network.
  int64_t SentBy(int host) const;
  // Waits until SentBy has grown by `bytes` over `before`; false if it does not in time.
  bool AwaitSent(int host, int64_t before, int64_t bytes);
  // Waits a moment; true if the host's program has ended.
  bool Watch(int host) const;

 private:
  struct Parts;
  PeerHosts();
  absl::Status Load(int64_t bytes);

  std::unique_ptr<Network> network_;
  const std::unique_ptr<Parts> parts_;
  dataloader::v1::ContentRef content_;
  std::string denied_;
};

}  // namespace capstan::integration

#endif  // CAPSTAN_INTEGRATION_PEERS_PEER_HOSTS_H_
