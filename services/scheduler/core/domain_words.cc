#include "services/scheduler/core/domain_words.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "services/scheduler/core/placement.h"
#include "services/scheduler/core/topology_levels.h"

namespace capstan::scheduler {

using capstan::scheduler::v1::Topology;
using Domain = capstan::scheduler::v1::ExplainJobResponse::Domain;

Domain DomainAt(const NodeCapacity& node, Topology::Level level) {
  Domain domain;
  domain.set_level(level);
  domain.set_cluster(absl::StrCat("clusters/", node.id.cluster));
  if (level == Topology::LEVEL_NODE) {
    domain.set_name(node.id.Name());
  } else if (level != Topology::LEVEL_UNSPECIFIED) {
    domain.set_name(NameOf(node, level));
  }
  return domain;
}

Domain NarrowestOf(const std::vector<const NodeCapacity*>& nodes) {
  for (size_t depth = kLevelsByWidth.size() - 1; depth > 0; --depth) {
    const Topology::Level level = kLevelsByWidth[depth];
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
