#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_TIGHT_PLACER_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_TIGHT_PLACER_H_

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "services/scheduler/core/placer.h"

namespace capstan::scheduler {

// Places by the engine of core/round. A gang goes to the Cluster that it leaves least of, and
// within it into one NVLink domain, rack, row or zone if one holds it, else into as few as a greedy
// choice finds, each section, group and slice with a level of its own into one of the domains of
// that within what is around it; ranks fill a Node before the next one is opened, and the next one is the tightest
// that takes all that is left of the group, else the roomiest. Exact for gangs of one group, in
// slices or not; of several groups, those are tried in rank order and with the largest Tasks first, and a gang that
// only fits in a cleverer way is not found. Of an elastic gang each part, in order, is there if it
// fits beside the least of the rest, and then each group, in order, gets as many Tasks, in whole slices, as a bisection
// finds to fit beside the least of the groups behind it: of one group, no more would. Beyond 30 kinds of accelerator in the fleet the rest, in order of names, counts as not
// there.
//
// A gang with a place on a Node that has less than nothing free is no victim, and is not counted on
// to go: Nodes that shrank are settled by what ends there.
//
// Begin is O(nodes · log + shares held), BeginNext a comparison for each Node and gang where few have
// changed (see KeptFleet), a placement O(nodes / 32 + gang); that of an elastic gang
// which does not get all takes one for each halving of what its groups may have more.
class TightPlacer final : public Placer {
 public:
  TightPlacer();

  using Placer::Begin;
  std::unique_ptr<PlacingRound> Begin(const std::vector<NodeCapacity>& nodes,
                                      const std::vector<HeldGang>& held,
                                      const std::set<std::string>* label_keys) const override;
  // A round still to be over when the next one begins has a fleet of its own.
  std::unique_ptr<PlacingRound> BeginNext(const std::vector<NodeCapacity>& nodes,
                                          const std::vector<HeldGang>& held,
                                          const std::set<std::string>* label_keys) override;

 private:
  struct Shelf;

  const std::shared_ptr<Shelf> shelf_;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_TIGHT_PLACER_H_
