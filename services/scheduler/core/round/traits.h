// What a node is and what a task asks of it, room aside.
#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_ROUND_TRAITS_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_ROUND_TRAITS_H_

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "libs/mig/layouts.h"
#include "services/scheduler/core/round/resources.h"

namespace capstan::scheduler::round {

// Levels of the topology, outermost first. A domain of a level lies in one domain of every level
// before it; an NVLink domain is hence taken rack by rack.
enum class Level : int8_t {
  kCluster = 0,
  kRegion = 1,
  kZone = 2,
  kRow = 3,
  kRail = 4,
  kRack = 5,
  kNvlinkDomain = 6,
  kHost = 7,
};
inline constexpr int kLevels = 8;

struct Taint {
  std::string key;
  std::string value;
};

// Nothing that this does not tolerate is placed on a node so tainted: every taint here is one of
// NoSchedule.
struct Toleration {
  // Every taint, if empty.
  std::string key;
  // Any value, if not set.
  bool any_value = false;
  std::string value;

  bool Tolerates(const Taint& taint) const;
};

// `key` has one of `values`; or is there at all, if `values` is empty. The contrary, if negated.
struct SelectorTerm {
  std::string key;
  std::vector<std::string> values;
  bool negated = false;

  bool Matches(const std::map<std::string, std::string>& labels) const;
};

// All terms must match.
struct Constraints {
  std::vector<SelectorTerm> selector;
  std::vector<Toleration> tolerations;

  // Equal for equal constraints.
  std::string Key() const;
};

// A GPU in MIG mode.
struct MigGpu {
  // In mig::DeviceModels().
  int model = 0;
  // Instances that no gang of the fleet holds, and that stay.
  mig::Instances standing;
};

struct NodeTraits {
  // By level: names within the level before. The cluster and the host have one; a node with an
  // empty name elsewhere is in no domain of that level.
  std::array<std::string, kLevels> path;
  std::map<std::string, std::string> labels;
  std::vector<Taint> taints;
  // What tasks may take in all.
  ResourceVector allocatable{};
  // A node's stay what they are for as long as it is there.
  std::vector<MigGpu> gpus;
};

enum class Admission : uint8_t { kAdmitted, kSelector, kTaint };

// Whether a task under the constraints may be on the node, and if not why: the first that fails.
Admission Admit(const NodeTraits& node, const Constraints& constraints);

}  // namespace capstan::scheduler::round

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_ROUND_TRAITS_H_
