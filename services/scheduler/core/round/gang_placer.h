#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_ROUND_GANG_PLACER_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_ROUND_GANG_PLACER_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <tuple>
#include <vector>

#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "services/scheduler/core/round/workspace.h"

namespace capstan::scheduler::round {

// Puts whole gangs into a workspace: all of every group's minimum or nothing.
//
// Exact for gangs whose tasks are of one class, and in slices of one kind, under one topology level:
// they are placed if and only if they fit. A tree of several classes is tried in rank order, then
// largest tasks first, then, where nodes are open to some of its tasks alone, with those first that
// least room is for; with domains in order of least leftover, at most kMaxTrials of them, of which at
// most half for what is only preferred: one that only fits in a cleverer way is not found.
//
// All of it is in one domain of the level that is preferred if any that it may be in holds it, else
// of the next wider one, and so on, up to what is required; each time in the one of least leftover.
// There the tasks of a leaf are in as few domains of the preferred level as can be.
class GangPlacer {
 public:
  static constexpr int kMaxTrials = 512;

  // `workspace` outlives this. Among equally good nodes the first from a place on that `seed`
  // chooses is taken, so that a gang which fails on a bad node is not sent there for ever.
  GangPlacer(Workspace* workspace, uint64_t seed) : workspace_(workspace), seed_(seed) {}

  // The place taken in the workspace, or absl::nullopt with the workspace as it was.
  absl::optional<std::vector<TaskRun>> Place(const GangShape& shape, Plane plane);

  // Likewise, within a domain of the root's level.
  absl::optional<std::vector<TaskRun>> PlaceIn(const GangShape& shape, Range domain, Plane plane);

  // Takes places for more tasks of the elastic groups of a gang that has `runs`, within the domains
  // it is in and as far as there is room. `limit` is the most tasks of one leaf, by group.
  std::vector<TaskRun> Grow(const GangShape& shape, absl::Span<const TaskRun> runs, Plane plane,
                            absl::Span<const int64_t> limit);

  // Where more tasks of the leaf may be beside those of its gang: the narrowest of the domains that
  // it, or a group around it, has to be in and has tasks in; empty if such a domain is unknown.
  Range DomainFor(const GangShape& shape, int leaf, absl::Span<const TaskRun> runs) const;

  // Whether there may be room within the range for all minima below the group, class by class and
  // for each kind of slices. Not to fit so is not to fit at all. O(range) for each.
  bool MayFit(const GangShape& shape, int group, Range range, Plane plane);

 private:
  struct Taken {
    int position;
    int group;
    int count;
    InstancePlace instance;
  };
  // In which children of a group are placed.
  enum class Order : uint8_t { kRank, kLargest, kScarcest };
  struct Mark {
    size_t journal;
    size_t taken;
  };
  // A leaf's tasks are taken domain by domain of this level.
  struct Step {
    Level level;
    // In multiples of so many; 0 where it is only preferred.
    int size;
    // The first of the leaf's slices within such a domain.
    size_t inner;
  };

  // Domains that may hold a group; mostly the first is the last that is asked for.
  class Candidates {
   public:
    void Add(int64_t leftover, bool is_before_origin, Range range) {
      heap_.emplace_back(leftover, is_before_origin, range.first, range.last);
    }
    // Least leftover first, then those from the origin on; once all are added.
    absl::optional<Range> Next() {
      if (heap_.empty()) return absl::nullopt;
      if (!any_taken_) {
        std::swap(*std::min_element(heap_.begin(), heap_.end()), heap_.back());
      } else {
        if (!is_heap_) std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
        is_heap_ = true;
        std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
      }
      any_taken_ = true;
      const Range range{std::get<2>(heap_.back()), std::get<3>(heap_.back())};
      heap_.pop_back();
      return range;
    }

   private:
    std::vector<std::tuple<int64_t, bool, int, int>> heap_;
    bool any_taken_ = false;
    bool is_heap_ = false;
  };

  absl::optional<std::vector<TaskRun>> PlaceInOrders(const GangShape& shape, Plane plane,
                                                     absl::optional<Range> domain);
  // The same of what is in slices alone.
  bool MayFitInSlices(const GangShape& shape, int group, Range range, Plane plane);
  // The domains of the level within the range.
  Candidates CandidatesFor(int group, Level level, Range range);
  bool PlaceGroup(int group, Range range);
  // In one domain of the level that is preferred, or else of a wider one, within what is required:
  // of all of these in the range, so that what is preferred decides where the required one is.
  bool PlaceInPreferred(int group, Range range);
  bool PlaceInOneOf(int group, Level level, Range range);
  bool PlaceWithin(int group, Range range);
  bool PlaceLeaf(int leaf, Range range, absl::Span<const Step> steps);
  // Takes up to `count` of the leaf's tasks; how many.
  int64_t Fill(int leaf, Range range, int64_t count);
  // The same step by step, where `count` is a multiple of the first slice.
  int64_t FillBySteps(int leaf, absl::Span<const Step> steps, Range range, int64_t count);
  // Of the leaf's class, without what is before that slice of it.
  int64_t FitInSlices(int leaf, size_t slice, Range range);
  // Slices, the leaf's preferred level among them if `preferred`.
  std::vector<Step> StepsOf(int leaf, bool preferred) const;
  void TakeRun(int leaf, int position, int64_t count);
  Mark Here() const { return {workspace_->Mark(), taken_.size()}; }
  void UndoTo(Mark mark);
  // How many of them, from the first on, are worth a try.
  int OrdersFor(const GangShape& shape) const;
  std::vector<int> ChildrenInOrder(int group) const;
  std::vector<TaskRun> TakeRuns();
  Range Everything() const { return {0, workspace_->rows().size()}; }
  int Origin(Range range) const;

  Workspace* workspace_;
  uint64_t seed_;
  // Of the gang at hand.
  const GangShape* shape_ = nullptr;
  Plane plane_ = Plane::kNow;
  Order order_ = Order::kRank;
  int trials_ = 0;
  std::vector<Taken> taken_;
};

}  // namespace capstan::scheduler::round

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_ROUND_GANG_PLACER_H_
