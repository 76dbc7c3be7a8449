#include "services/scheduler/core/domain_words.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "services/scheduler/core/placement.h"

namespace capstan::scheduler {

using capstan::scheduler::v1::Topology;
using Domain = capstan::scheduler::v1::ExplainJobResponse::Domain;

Domain DomainAt(const NodeCapacity& node, Topology::Level level) {
  Domain domain;
  domain.set_level(level);
  domain.set_cluster(absl::StrCat("clusters/", node.id.cluster));
  switch (level) {
    case Topology::LEVEL_REGION:
      domain.set_name(node.topology.region);
      break;
    case Topology::LEVEL_ZONE:
      domain.set_name(node.topology.zone);
      break;
    case Topology::LEVEL_ROW:
      domain.set_name(node.topology.row);
      break;
    case Topology::LEVEL_RACK:
      domain.set_name(node.topology.rack);
      break;
    case Topology::LEVEL_NVLINK_DOMAIN:
      domain.set_name(node.topology.nvlink_domain);
      break;
    case Topology::LEVEL_NODE:
      domain.set_name(node.id.Name());
      break;
    default:
      break;
  }
  return domain;
}

Domain NarrowestOf(const std::vector<const NodeCapacity*>& nodes) {
  for (int at = Topology::LEVEL_NODE; at > Topology::LEVEL_UNSPECIFIED; --at) {
    const auto level = static_cast<Topology::Level>(at);
    const std::string first = DomainOf(*nodes.front(), level);
    const bool all = std::all_of(nodes.begin(), nodes.end(), [&](const NodeCapacity* node) {
      return DomainOf(*node, level) == first;
    });
    if (all && !first.empty()) return DomainAt(*nodes.front(), level);
  }
  return DomainAt(*nodes.front(), Topology::LEVEL_UNSPECIFIED);
}

std::string DomainInWords(const Domain& domain) {
  if (domain.level() == Topology::LEVEL_UNSPECIFIED) return domain.cluster();
  if (domain.level() == Topology::LEVEL_NODE) return domain.name();
  return absl::StrCat(LevelInWords(domain.level()), " ", domain.name());
}

}  // namespace capstan::scheduler
