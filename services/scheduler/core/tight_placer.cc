#include "services/scheduler/core/tight_placer.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "services/scheduler/core/gang_growth.h"
#include "services/scheduler/core/gang_sizes.h"
#include "services/scheduler/core/group_tree.h"
#include "services/scheduler/core/kept_fleet.h"
#include "services/scheduler/core/mig_amounts.h"
#include "services/scheduler/core/move_search.h"
#include "services/scheduler/core/placing_fleet.h"
#include "services/scheduler/core/round/backfill.h"
#include "services/scheduler/core/round/fleet.h"
#include "services/scheduler/core/round/gang_placer.h"
#include "services/scheduler/core/round/node_rows.h"
#include "services/scheduler/core/round/preemption.h"
#include "services/scheduler/core/round/workspace.h"
#include "services/scheduler/core/usage.h"

namespace capstan::scheduler {
namespace {

using round::Fleet;
using round::GangIndex;
using round::GangShape;
using round::Plane;
using round::TaskRun;

// The queues' rules in the engine's words.
class HeldRules final : public round::EvictionRules {
 public:
  // `unsaved`: of each that is held.
  HeldRules(KeptFleet* kept, const std::vector<bool>& is_spare,
            const std::vector<absl::Duration>& unsaved, VictimRules* rules)
      : kept_(kept), is_spare_(is_spare), unsaved_(unsaved), rules_(rules) {}

  bool MayEvict(GangIndex victim) const override { return rules_->MayEvict(kept_->HeldOf(victim)); }
  std::vector<GangIndex> Together(std::vector<GangIndex> candidates) const override {
    std::vector<int> held;
    for (GangIndex gang : candidates) held.push_back(kept_->HeldOf(gang));
    candidates.clear();
    for (int one : rules_->Together(held)) candidates.push_back(*kept_->gangs()[one]);
    return candidates;
  }
  void SetEnded(GangIndex victim, bool ended) override {
    rules_->SetEnded(kept_->HeldOf(victim), ended);
  }
  bool MayStart() const override { return rules_->MayStart(); }
  // All of a gang's work ends with either part of it, and both together are as dear as one gang is.
  absl::optional<int64_t> LostWorkOf(GangIndex victim) const override {
    const size_t at = static_cast<size_t>(kept_->HeldOf(victim));
    const size_t spare = is_spare_[at] ? at : at + 1;
    const bool is_pair = spare < is_spare_.size() && is_spare_[spare] &&
                         kept_->gangs()[spare].has_value() && kept_->gangs()[spare - 1].has_value();
    if (!is_pair) return LostWorkAt(at);
    const int64_t half = (LostWorkAt(spare) + LostWorkAt(spare - 1)) / 2;
    return is_spare_[at] ? half : half + 1;
  }
  uint64_t RankOf(GangIndex victim) const override {
    return static_cast<uint64_t>(kept_->HeldOf(victim));
  }

 private:
  int64_t LostWorkAt(size_t held) const {
    return round::LostWork(kept_->workspace().snapshot(), *kept_->gangs()[held], unsaved_[held]);
  }

  KeptFleet* const kept_;
  const std::vector<bool>& is_spare_;
  const std::vector<absl::Duration>& unsaved_;
  VictimRules* const rules_;
};

}  // namespace

// Where the fleet of a round waits for the next one.
struct TightPlacer::Shelf {
  std::unique_ptr<KeptFleet> kept;
};

namespace {

class TightRound final : public PlacingRound {
 public:
  // `give_back` gets the fleet once the round is over, as it was but for what is said to be
  // disturbed.
  using GiveBack = std::function<void(std::unique_ptr<KeptFleet> kept)>;

  TightRound(std::unique_ptr<KeptFleet> kept, const std::vector<NodeCapacity>& nodes,
             const std::vector<HeldGang>& held, GiveBack give_back)
      : kept_(std::move(kept)),
        placing_fleet_(kept_->placing_fleet()),
        fleet_(kept_->fleet()),
        workspace_(kept_->workspace()),
        give_back_(std::move(give_back)) {
    for (const NodeCapacity& node : nodes) {
      unisolated_.push_back(node.unisolated && !node.only_submitter);
    }
    for (size_t i = 0; i < held.size(); ++i) {
      is_spare_.push_back(held[i].is_spare);
      unsaved_.push_back(held[i].unsaved);
      const absl::optional<GangIndex>& gang = kept_->gangs()[i];
      if (!gang.has_value()) continue;
      if (held[i].ending) ending_.push_back(*gang);
      Count(held[i].left, *gang);
      departures_.back().assumed = held[i].left_is_assumed;
    }
  }

  ~TightRound() override {
    if (give_back_ == nullptr) return;
    for (GangIndex gang : added_) fleet_.RemoveGang(gang);
    for (GangIndex gang : told_) kept_->Disturb(gang);
    for (round::NodeIndex node : taken_) kept_->DisturbNode(node);
    give_back_(std::move(kept_));
  }

  void Prepare() override { Load(); }

  absl::optional<GangPlacement> Place(const GangRequest& gang, MayHaveMore may_have) override {
    const Plane plane = PlaneOf(gang);
    GangPlacement placement;
    placement.sizes = SizesFor(gang, plane, may_have);
    if (placement.sizes.empty()) return absl::nullopt;
    const absl::optional<round::ShapeId> id = placement.sizes == LeastSizes(gang)
                                                  ? placing_fleet_.ShapeOf(gang)
                                                  : placing_fleet_.ShapeOf(gang, placement.sizes);
    const auto runs = id.has_value() ? Try(*id, plane) : absl::nullopt;
    if (!runs.has_value()) return absl::nullopt;
    const GangIndex index = AddPending(*id, 0);
    if (!fleet_.Start(index, *runs, kRoundStart).ok()) {
      is_loaded_ = false;
      return absl::nullopt;
    }
    if (plane == Plane::kBeyondReservation) Lower(fleet_.shape(*id), *runs);
    Count(gang.duration, index);
    AddRuns(*runs, &placement);
    TakeUnisolated(*runs, gang.submitter);
    return placement;
  }

  std::vector<MoreTasks> Grow(const GangRequest& gang, const GangPlacement& has, int least,
                              MayHaveMore may_have) override {
    const absl::optional<round::ShapeId> widest = placing_fleet_.ShapeOf(gang, MostSizes(gang));
    if (!widest.has_value()) return {};
    // The classes of the shapes that are tried are those of the widest.
    const size_t mark = LoadFor(*widest);
    const Plane plane = PlaneOf(gang);
    GangGrowth growth(&placing_fleet_, &workspace_, plane, gang, has, *widest);
    growth.Run(may_have);
    workspace_.UndoTo(mark);
    if (growth.count() < std::max(least, 1) || !HoldMore(gang, growth.added())) return {};
    if (plane == Plane::kBeyondReservation) Lower(fleet_.shape(*widest), growth.added_runs());
    return growth.added();
  }

  absl::optional<StartEstimate> Reserve(const GangRequest& gang) override {
    const absl::optional<round::ShapeId> id = placing_fleet_.ShapeOf(gang);
    if (reservation_.has_value() || !id.has_value()) return absl::nullopt;
    const GangIndex index = AddPending(*id, 0);
    const std::vector<std::pair<absl::Duration, round::ShapeId>> shapes =
        placing_fleet_.ShapesByStart(gang);
    Load();
    std::vector<round::Beginning> beginnings;
    for (const auto& [start, shape] : shapes) {
      beginnings.push_back({kRoundStart + start, workspace_.snapshot().shapes[shape].get()});
    }
    round::GangPlacer placer(&workspace_, 0);
    std::vector<round::Departure> departures = departures_;
    for (round::Departure& departure : departures) {
      const round::Gang& entry = fleet_.gang(departure.gang);
      departure.shape = workspace_.snapshot().shapes[entry.shape].get();
      departure.runs = entry.runs;
    }
    reservation_ = round::Reserve(workspace_, placer, index, beginnings, std::move(departures));
    Remove(index);
    is_loaded_ = false;
    if (!reservation_.has_value()) return absl::nullopt;
    for (const auto& [node, left] : reservation_->bounds) bounds_[node] = left;
    return StartEstimate{reservation_->start - kRoundStart, reservation_->assumed};
  }

  bool IsBound(const GangRequest& gang) const override {
    return PlaneOf(gang) == Plane::kBeyondReservation;
  }

  bool FitsUnbound(const GangRequest& gang) override {
    return Fits(gang, LeastSizes(gang), Plane::kNow);
  }

  std::string Openings(const GangRequest& gang) const override {
    return placing_fleet_.Openings(gang);
  }

  bool FitsAfterEnding(const GangRequest& gang) override {
    const absl::optional<round::ShapeId> id =
        placing_fleet_.ShapeOf(placing_fleet_.WithDelay(gang));
    return id.has_value() && PlaceAfterEnding(*id).has_value();
  }

  bool HoldAfterEnding(const GangRequest& gang) override {
    const absl::optional<round::ShapeId> id = placing_fleet_.ShapeOf(gang);
    if (!id.has_value()) return false;
    auto runs = PlaceAfterEnding(*id);
    if (!runs.has_value()) return false;
    return Hold(AddPending(*id, 0), gang, *std::move(runs), ending_);
  }

  std::vector<Victim> FindVictims(const GangRequest& gang, int32_t priority,
                                  VictimRules* rules) override {
    const absl::optional<round::ShapeId> id =
        placing_fleet_.ShapeOf(placing_fleet_.WithDelay(gang));
    if (!id.has_value()) return {};
    const GangIndex index = AddPending(*id, priority);
    Load();
    // Some of it is taken out of what is free already, for those that wait for it.
    GiveEnding();
    round::GangPlacer placer(&workspace_, 0);
    HeldRules held_rules(kept_.get(), is_spare_, unsaved_, rules);
    const auto found =
        round::FindVictims(workspace_, placer, held_rules, {}, {}, index, kRoundStart, Plane::kNow);
    std::vector<GangIndex> leaving = ending_;
    if (found.has_value()) {
      leaving.insert(leaving.end(), found->victims.begin(), found->victims.end());
    }
    if (!found.has_value() || found->victims.size() > kMaxVictims ||
        !Hold(index, gang, found->runs, leaving)) {
      Remove(index);
      is_loaded_ = false;
      return {};
    }
    std::vector<Victim> victims;
    for (size_t i = 0; i < found->victims.size(); ++i) {
      victims.push_back({kept_->HeldOf(found->victims[i]), found->needs[i]});
      ending_.push_back(found->victims[i]);
    }
    std::sort(victims.begin(), victims.end(),
              [](const Victim& a, const Victim& b) { return a.held < b.held; });
    return victims;
  }

  absl::optional<MovePlan> FindMoves(const GangRequest& gang, const MoveRules& rules,
                                     int64_t max_cost, bool has_reservation) override {
    MoveScene scene;
    scene.placing_fleet = &placing_fleet_;
    scene.workspace = &workspace_;
    scene.held = &kept_->gangs();
    scene.is_spare = &is_spare_;
    scene.held_of = [this](GangIndex held) { return kept_->HeldOf(held); };
    scene.prepare = [this] {
      Load();
      // Some of it is taken out of what is free already, for those that wait for it.
      GiveEnding();
    };
    scene.plane_of = [this, has_reservation](const GangRequest& request) {
      return has_reservation ? Plane::kNow : PlaneOf(request);
    };
    absl::optional<MoveChoice> choice = ChooseMoves(scene, gang, rules, max_cost);
    is_loaded_ = false;
    if (!choice.has_value()) return absl::nullopt;
    return Carry(*choice);
  }

  bool PlaceAt(const GangRequest& gang, const GangPlacement& placement) override {
    return TakeAt(gang, placement, [this](GangIndex index, std::vector<TaskRun> runs) {
      return fleet_.Start(index, std::move(runs), kRoundStart).ok();
    });
  }

  bool HoldAt(const GangRequest& gang, const GangPlacement& placement) override {
    return TakeAt(gang, placement, [this](GangIndex index, std::vector<TaskRun> runs) {
      return Nominate(index, std::move(runs), ending_);
    });
  }

 private:
  // Holds the places of all of them.
  absl::optional<MovePlan> Carry(const MoveChoice& choice) {
    std::vector<GangIndex> leaving = ending_;
    leaving.insert(leaving.end(), choice.leaving.begin(), choice.leaving.end());
    // A Node that cannot isolate strangers becomes its first submitter's.
    std::map<round::NodeIndex, std::string> taken;
    for (const MoveChoice::Part& part : choice.parts) {
      for (const TaskRun& run : part.runs) {
        const auto known = taken.emplace(run.node, part.request.submitter).first;
        if (unisolated_[run.node] && known->second != part.request.submitter) return absl::nullopt;
      }
    }
    std::vector<GangIndex> added;
    for (const MoveChoice::Part& part : choice.parts) {
      added.push_back(AddPending(part.shape, 0));
      if (Hold(added.back(), part.request, part.runs, leaving)) continue;
      for (GangIndex index : added) Remove(index);
      departures_.resize(departures_.size() - (added.size() - 1));
      return absl::nullopt;
    }
    MovePlan plan;
    plan.cost = choice.cost;
    for (const MoveChoice::Part& part : choice.parts) {
      if (part.plane == Plane::kBeyondReservation) Lower(fleet_.shape(part.shape), part.runs);
      TakeUnisolated(part.runs, part.request.submitter);
      if (part.held < 0) continue;
      Relocation& move = plan.moves.emplace_back();
      move.held = part.held;
      move.to.sizes = LeastSizes(part.request);
      AddRuns(part.runs, &move.to);
    }
    ending_ = std::move(leaving);
    return plan;
  }

  // `take`: starts or nominates the gang of that index with these runs.
  template <typename Take>
  bool TakeAt(const GangRequest& gang, const GangPlacement& placement, Take take) {
    const absl::optional<round::ShapeId> id = placing_fleet_.ShapeOf(gang, placement.sizes);
    if (!id.has_value()) return false;
    std::vector<TaskRun> runs;
    const std::vector<int> leaves = LeavesOf(gang, placement.sizes);
    size_t rank = 0;
    for (size_t g = 0; g < placement.sizes.size(); ++g) {
      for (int i = 0; i < placement.sizes[g]; ++i, ++rank) {
        TaskRun run;
        run.node = static_cast<round::NodeIndex>(placement.nodes[rank]);
        run.group = leaves[g];
        run.count = 1;
        if (rank < placement.mig.size() && placement.mig[rank].has_value()) {
          run.instance = placing_fleet_.PlaceOf(placement.nodes[rank], *placement.mig[rank]);
          if (!run.instance.is_one()) return false;
        }
        runs.push_back(run);
      }
    }
    const GangIndex index = AddPending(*id, 0);
    is_loaded_ = false;
    if (!take(index, runs)) {
      Remove(index);
      return false;
    }
    Count(gang.duration, index);
    TakeUnisolated(runs, gang.submitter);
    return true;
  }

  // Appends the runs' Tasks, in order of rank.
  void AddRuns(const std::vector<TaskRun>& runs, GangPlacement* placement) const {
    for (const TaskRun& run : runs) {
      placement->nodes.insert(placement->nodes.end(), static_cast<size_t>(run.count),
                              static_cast<int>(run.node));
      if (run.instance.is_one()) placement->mig.resize(placement->nodes.size());
      if (run.instance.is_one()) placement->mig.back() = placing_fleet_.SpotOf(run);
    }
    if (!placement->mig.empty()) placement->mig.resize(placement->nodes.size());
  }

  void TakeUnisolated(const std::vector<TaskRun>& runs, const std::string& submitter) {
    for (const TaskRun& run : runs) {
      if (unisolated_[run.node]) TakeForOne(run.node, submitter);
    }
  }

  // Brings the workspace up to the fleet, and to what is kept for the reservation.
  void Load() {
    workspace_.Load(fleet_.Freeze());
    is_loaded_ = true;
    for (const auto& [node, left] : bounds_) {
      const int position = workspace_.rows().position(node);
      if (position >= 0) workspace_.SetBound(position, left);
    }
  }

  // The same, where anything is missing for the shape; where to undo to.
  size_t LoadFor(round::ShapeId id) {
    const size_t classes = is_loaded_ ? workspace_.snapshot().classes.size() : 0;
    const GangShape& shape = fleet_.shape(id);
    const bool known = std::all_of(shape.groups.begin(), shape.groups.end(),
                                   [classes](const auto& g) { return g.task_class < classes; });
    if (!known) Load();
    return workspace_.Mark();
  }

  absl::optional<std::vector<TaskRun>> Try(round::ShapeId id, Plane plane) {
    LoadFor(id);
    return round::GangPlacer(&workspace_, 0).Place(fleet_.shape(id), plane);
  }

  bool Fits(const GangRequest& gang, const std::vector<int>& sizes, Plane plane) {
    const absl::optional<round::ShapeId> id = placing_fleet_.ShapeOf(gang, sizes);
    if (!id.has_value()) return false;
    const size_t mark = LoadFor(*id);
    const bool fits = round::GangPlacer(&workspace_, 0).Place(fleet_.shape(*id), plane).has_value();
    workspace_.UndoTo(mark);
    return fits;
  }

  // How many Tasks of each group fit and may be; empty if the least does not fit.
  std::vector<int> SizesFor(const GangRequest& gang, Plane plane, MayHaveMore may_have) {
    const auto may_be = [&](const std::vector<int>& tried) {
      Amounts more;
      for (size_t g = 0; g < tried.size(); ++g) {
        more.Add(gang.groups[g].each, tried[g] - gang.groups[g].replicas);
      }
      return may_have(more) && Fits(gang, tried, plane);
    };
    std::vector<int> most = MostSizes(gang);
    // Where it is not elastic the attempt to place it answers.
    if (most == LeastSizes(gang) || may_be(most)) return most;
    if (!Fits(gang, LeastSizes(gang), plane)) return {};
    return MostThatMayBe(gang, may_be);
  }

  // Takes the place of what a gang gets more, as one that stays.
  bool HoldMore(const GangRequest& gang, const std::vector<MoreTasks>& added) {
    std::map<int, Amounts> shares;
    for (const MoreTasks& one : added) {
      shares[one.node].Add(WithInstance(gang.groups[one.group].each, one.mig), one.count);
    }
    HeldGang held;
    held.shares.assign(shares.begin(), shares.end());
    is_loaded_ = false;
    const absl::optional<GangIndex> index = kept_->Hold(held);
    if (!index.has_value()) return false;
    added_.insert(*index);
    Count(gang.duration, *index);
    for (const auto& [node, amounts] : shares) {
      if (unisolated_[node]) TakeForOne(static_cast<round::NodeIndex>(node), gang.submitter);
    }
    return true;
  }

  absl::optional<std::vector<TaskRun>> PlaceAfterEnding(round::ShapeId id) {
    const size_t mark = LoadFor(id);
    GiveEnding();
    auto runs = round::GangPlacer(&workspace_, 0).Place(fleet_.shape(id), Plane::kNow);
    workspace_.UndoTo(mark);
    return runs;
  }

  // What is told to end counts as gone.
  void GiveEnding() {
    for (GangIndex gang : ending_) {
      workspace_.Give(fleet_.shape(fleet_.gang(gang).shape), *fleet_.gang(gang).runs, 1);
    }
  }

  bool Hold(GangIndex index, const GangRequest& gang, std::vector<TaskRun> runs,
            const std::vector<GangIndex>& victims) {
    is_loaded_ = false;
    if (!Nominate(index, std::move(runs), victims)) return false;
    Count(gang.duration, index);
    return true;
  }

  bool Nominate(GangIndex index, std::vector<TaskRun> runs, const std::vector<GangIndex>& victims) {
    if (!fleet_.Nominate(index, std::move(runs), victims).ok()) return false;
    told_.insert(victims.begin(), victims.end());
    return true;
  }

  GangIndex AddPending(round::ShapeId id, int32_t priority) {
    round::Gang entry;
    entry.shape = id;
    entry.priority = priority;
    entry.preemptible = false;  // nobody ends what this round has begun
    return Add(entry);
  }

  // Gangs of this round.
  GangIndex Add(const round::Gang& entry) {
    const GangIndex index = fleet_.AddGang(entry);
    added_.insert(index);
    return index;
  }
  void Remove(GangIndex index) {
    fleet_.RemoveGang(index);
    added_.erase(index);
  }

  // Counts on the gang's going. Shape and runs are filled in when that is used.
  void Count(absl::Duration left, GangIndex gang) {
    round::Departure& departure = departures_.emplace_back();
    departure.assumed = left == absl::InfiniteDuration();
    departure.end = kRoundStart + (departure.assumed ? kAssumedRun : left);
    departure.gang = gang;
    departure.order = departures_.size();
  }

  Plane PlaneOf(const GangRequest& gang) const {
    if (!reservation_.has_value()) return Plane::kNow;
    return kRoundStart + gang.duration <= reservation_->start ? Plane::kNow
                                                              : Plane::kBeyondReservation;
  }

  // What is placed beyond the reservation lowers what may still be.
  void Lower(const GangShape& shape, const std::vector<TaskRun>& runs) {
    for (const TaskRun& run : runs) {
      const auto bound = bounds_.find(run.node);
      if (bound == bounds_.end()) continue;
      const round::ClassId id = shape.groups[run.group].task_class;
      round::AddTo(bound->second.left, workspace_.task_class(id).request, -int64_t{run.count});
      if (run.instance.is_one()) {
        bound->second.gpus[run.instance.gpu].Add(run.instance.position);
      }
    }
  }

  void TakeForOne(round::NodeIndex node, const std::string& submitter) {
    placing_fleet_.TakeForOne(node, submitter);
    taken_.insert(node);
    unisolated_[node] = false;
    is_loaded_ = false;
  }

  std::unique_ptr<KeptFleet> kept_;
  PlacingFleet& placing_fleet_;
  Fleet& fleet_;
  round::Workspace& workspace_;
  const GiveBack give_back_;
  // False if the workspace lacks anything that the fleet has.
  bool is_loaded_ = false;
  // By node: becomes its first submitter's.
  std::vector<bool> unisolated_;
  // By position among those held.
  std::vector<bool> is_spare_;
  std::vector<absl::Duration> unsaved_;
  std::vector<GangIndex> ending_;
  // Of all that holds a place.
  std::vector<round::Departure> departures_;
  absl::optional<round::Reservation> reservation_;
  absl::flat_hash_map<round::NodeIndex, round::NodeBound> bounds_;
  // What the round has done to the fleet: gangs of its own, those that it told to end, and nodes
  // that became somebody's.
  std::set<GangIndex> added_;
  std::set<GangIndex> told_;
  std::set<round::NodeIndex> taken_;
};

}  // namespace

TightPlacer::TightPlacer() : shelf_(std::make_shared<Shelf>()) {}

std::unique_ptr<PlacingRound> TightPlacer::Begin(const std::vector<NodeCapacity>& nodes,
                                                 const std::vector<HeldGang>& held,
                                                 const std::set<std::string>* label_keys) const {
  return std::make_unique<TightRound>(std::make_unique<KeptFleet>(nodes, held, label_keys), nodes,
                                      held, nullptr);
}

std::unique_ptr<PlacingRound> TightPlacer::BeginNext(const std::vector<NodeCapacity>& nodes,
                                                     const std::vector<HeldGang>& held,
                                                     const std::set<std::string>* label_keys) {
  std::unique_ptr<KeptFleet> kept = std::move(shelf_->kept);
  if (kept == nullptr || !kept->Follow(nodes, held, label_keys)) {
    kept = std::make_unique<KeptFleet>(nodes, held, label_keys);
  }
  return std::make_unique<TightRound>(
      std::move(kept), nodes, held,
      [shelf = shelf_](std::unique_ptr<KeptFleet> over) { shelf->kept = std::move(over); });
}

}  // namespace capstan::scheduler
