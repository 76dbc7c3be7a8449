#ifndef CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_PEERED_CONTENT_H_
#define CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_PEERED_CONTENT_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "libs/log/log.h"
#include "libs/metrics/registry.h"
#include "libs/time/clock.h"
#include "services/node_agent/ports/loader_content.h"
#include "services/node_agent/ports/peer_network.h"

namespace capstan::node_agent {

struct PeeredContentOptions {
  // Where this Node serves its peers.
  std::string address;
  // Less than this comes from the Site alone: to ask around would take longer.
  int64_t least_bytes = int64_t{4} << 20;
  // Asked for at once of a peer, and of the Site, before data_loader is asked again for peers.
  // Whole chunks.
  int64_t peer_range = int64_t{64} << 20;
  int64_t site_range = int64_t{32} << 20;
  // How long a peer that was busy, and one that failed, is not asked again.
  absl::Duration busy_for = absl::Seconds(2);
  absl::Duration failed_for = absl::Seconds(30);
};

// Content from the Nodes that have it, where there are any, and from data_loader's Site else; each
// chunk is checked by its digest, as data_loader gives it, before it is passed on. A peer that is
// busy, slow, gone or wrong is left for the next one, from the byte that is here; one that is wrong
// is reported, and not asked for that content again. Errors of Read are those of the Site and of
// the sink only. The rest is `loader`'s. `loader`, `network`, `clock`, `logger` and `registry`,
// which may be null, must outlive it.
std::unique_ptr<LoaderContent> MakePeeredContent(LoaderContent* loader, PeerNetwork* network,
                                                 const PeeredContentOptions& options,
                                                 const Clock* clock, const log::Logger* logger,
                                                 metrics::Registry* registry);

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_PEERED_CONTENT_H_
