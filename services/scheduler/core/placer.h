#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_PLACER_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_PLACER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "google/protobuf/map.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "proto/capstan/type/v1/task.pb.h"
#include "services/scheduler/core/mig_amounts.h"
#include "services/scheduler/core/model.h"
#include "services/scheduler/core/node_terms.h"
#include "services/scheduler/core/optional_parts.h"
#include "services/scheduler/core/round/need.h"
#include "services/scheduler/core/usage.h"

namespace capstan::scheduler {

// Where a Node stands, outermost first; empty where nobody said.
struct NodeTopology {
  std::string region;
  std::string zone;
  std::string row;
  std::string rail;
  std::string rack;
  std::string nvlink_domain;

  // From the labels `topology.kubernetes.io/{region,zone}`,
  // `capstan.dev/{row,rail,rack,nvlink-domain}` and, without the last, `nvidia.com/gpu.clique`.
  static NodeTopology From(const google::protobuf::Map<std::string, std::string>& labels);
};

// A time in which a Node takes nothing, from now: [from, until).
struct Closure {
  absl::Duration from;
  absl::Duration until;

  friend bool operator==(const Closure&, const Closure&) = default;
};

// A Node as a Placer sees it.
struct NodeCapacity {
  NodeId id;
  // Allocatable less what live Tasks take; may be negative where a Node has shrunk.
  Amounts free;
  // False for a Node that takes nothing: silent, cordoned, draining, not yet reported.
  bool eligible = false;
  // If set, only Jobs of this submitter may be placed: the Node cannot isolate strangers.
  absl::optional<std::string> only_submitter;
  // The Node cannot isolate strangers: the first to be placed on it is its only submitter.
  bool unisolated = false;
  // Some gang stays off it: see GangRequest::avoided.
  bool avoided = false;
  // If set, it is kept for the gangs that name it in GangRequest::orders.
  std::string order;
  NodeTopology topology;
  // What it says of itself, of which labels and taints count here; it stays where and as it is for
  // as long as this is used. Null: neither.
  const capstan::type::v1::NodeObservation* reported = nullptr;
  // False only if that has no taints.
  bool may_have_taints = true;
  // Not over, by time, apart from each other.
  std::vector<Closure> closures;
  // Another one whenever `reported` may say other than it did; 0: not known.
  uint64_t revision = 0;

  // Whether what begins `start` from now and may stay so long would be on it in no closure.
  bool IsOpen(absl::Duration start, absl::Duration stay) const {
    return std::none_of(closures.begin(), closures.end(), [&](const Closure& closure) {
      return closure.from < start + stay && start < closure.until;
    });
  }
};

// What a gang that declares no time limit is taken to run for.
inline constexpr absl::Duration kAssumedRun = absl::Hours(24);

// A gang that holds a place when a round begins.
struct HeldGang {
  std::string uid;
  // What its live Tasks take: positions of Nodes, each once.
  std::vector<std::pair<int, Amounts>> shares;
  int32_t priority = 0;
  // May be ended for another gang.
  bool preemptible = false;
  // Told to end: its place is free soon.
  bool ending = false;
  // Until it has gone, by what was declared or, if so marked, by a guess.
  absl::Duration left;
  bool left_is_assumed = false;
  // Of its work, what ends with it.
  absl::Duration unsaved;
  // How long its stop takes at most.
  absl::Duration grace;
  // What the gang before this one has beyond its least: it may end without the rest of it. Where
  // either is enough, this one ends.
  bool is_spare = false;
  // Another one whenever `shares` may be others than they were under this uid; 0: not known.
  uint64_t revision = 0;
};

// A gang to be placed.
struct GangRequest {
  // Each run of `size` consecutive Tasks of a group is in one domain of `level`.
  struct Slice {
    capstan::scheduler::v1::Topology::Level level;
    int size = 1;

    friend bool operator==(const Slice&, const Slice&) = default;
  };
  struct Group {
    // At least.
    int replicas = 0;
    Amounts each;
    capstan::scheduler::v1::Topology topology = {};
    // Beyond those, at most.
    int more = 0;
    // The widest first; the first one's size divides `replicas` and `more`.
    std::vector<Slice> slices = {};
    // Position of the section it is in; -1: the gang itself.
    int section = -1;
    // Of labels, beside what the gang asks for.
    NodeRequirements node_requirements = {};
    // Of one in a part, of which `replicas` is 0: at least so many, if it has any.
    int least_of_part = 0;

    int most() const { return replicas + more; }

    // It has whole ones of so many Tasks.
    int step() const { return slices.empty() ? 1 : slices.front().size; }
  };
  // Groups and other sections, all in one domain of its level.
  struct Section {
    // An earlier one; -1: the gang itself.
    int parent = -1;
    capstan::scheduler::v1::Topology topology;
  };
  // In rank order.
  std::vector<Group> groups;
  std::vector<Section> sections;
  // Beyond what it needs, before its groups get `more`: each whole or not at all, in order, where
  // `more` lets all of its groups have their least.
  std::vector<OptionalPart> parts;
  // Clusters allowed; empty means any.
  std::set<std::string> clusters;
  std::string submitter;
  // Nodes that it stays off; in a round only those count that are marked so.
  std::set<NodeId> avoided;
  // Orders of capacity (ids) on whose Nodes it may be.
  std::set<std::string> orders;
  // Of the whole gang.
  capstan::scheduler::v1::Topology topology;
  // What the labels of all its Nodes must say, and which taints they may have.
  NodeRequirements node_requirements;
  Tolerations tolerations;
  // Holds its place for at most so long; infinite if nothing was declared. No part of the Shape.
  absl::Duration duration = absl::InfiniteDuration();
  // If not 0, requests that have the same are equal.
  uint64_t kind = 0;

  static GangRequest From(const JobEntry& job);
  // Equal for gangs that fit the same Nodes, as far as these are open to them.
  std::string Shape() const;
};

// Where a gang goes.
struct GangPlacement {
  // By rank: positions in the given Nodes, all of one Cluster.
  std::vector<int> nodes;
  // By group: how many Tasks it has.
  std::vector<int> sizes;
  // By rank, of those that ask for one, the MIG instance; empty if none of the gang asks.
  std::vector<absl::optional<MigSpot>> mig = {};
};

// More Tasks of a gang's group on a Node, by position.
struct MoreTasks {
  int group = 0;
  int node = 0;
  int count = 0;
  // If the group asks for MIG instances that of the one Task.
  absl::optional<MigSpot> mig = {};
};

// Whether the queues let a gang have so much beyond what it needs at least.
using MayHaveMore = absl::FunctionRef<bool(const Amounts& more)>;

// So many gangs end for one that waits at most: the decision is one record, and a store takes 1 MiB
// (kMaxValueBytes in libs/store/store.h).
inline constexpr size_t kMaxVictims = 10'000;

// A gang that ends for one that waits.
struct Victim {
  // Position among those held.
  int held = 0;
  round::Need need;

  friend bool operator==(const Victim&, const Victim&) = default;
};

// Whose gangs may end for one that waits: the word of the queues. Gangs are named by their position
// among those held.
class VictimRules {
 public:
  virtual ~VictimRules() = default;

  // Whether it may end, if no other does.
  virtual bool MayEvict(int held) const = 0;
  // Of those that may, best first: some that all may together, and hence any of them.
  virtual std::vector<int> Together(const std::vector<int>& held) const = 0;
  // Counts it as ended, or as not after all.
  virtual void SetEnded(int held, bool ended) = 0;
  // Whether the queues let the waiting gang start once those counted as ended have gone.
  virtual bool MayStart() const = 0;
};

// Who may be moved so that one that waits gets its room in one piece. Gangs are named by their
// position among those held; of one in two parts (HeldGang::is_spare) the first stands for both.
class MoveRules {
 public:
  virtual ~MoveRules() = default;

  // What moving it costs, in any unit, at least 1; absent if it may not be moved.
  virtual absl::optional<int64_t> CostOf(int held) const = 0;
  // As it is to be placed again: at least all that it has.
  virtual GangRequest RequestOf(int held) const = 0;
};

// Where a gang that is moved goes.
struct Relocation {
  // Position among those held.
  int held = 0;
  GangPlacement to;
};

// Gangs that stand elsewhere so that another one fits.
struct MovePlan {
  std::vector<Relocation> moves;
  // Of all of them.
  int64_t cost = 0;
};

// When a gang can start at the latest, from now.
struct StartEstimate {
  absl::Duration wait;
  // It rests on guesses of when gangs end.
  bool assumed = false;
};

// One round of placing: what is placed takes room from what comes after. For one thread.
class PlacingRound {
 public:
  virtual ~PlacingRound() = default;

  // Does now what whoever is asked about first would have to wait for.
  virtual void Prepare() = 0;

  // All that the gang needs at least, or nothing; of its parts, in order, those that fit beside
  // that; and of each group, in order, as many more as fit; as far as `may_have` lets it have them,
  // which must let it have less where it lets it have more. absl::nullopt if the least does not fit
  // now, and then no gang of its Shape and Openings fits in this round any more; unless it IsBound,
  // which holds of others of these that are bound.
  virtual absl::optional<GangPlacement> Place(const GangRequest& gang, MayHaveMore may_have) = 0;
  absl::optional<GangPlacement> Place(const GangRequest& gang) {
    return Place(gang, [](const Amounts&) { return true; });
  }

  // More Tasks for a gang that holds, or kept, the place `has`: the parts that it has nothing of,
  // in order, where they fit whole; then of each group that is there, in order, as many as fit, up
  // to the most it may have. They fit beside all that was placed or is held, in the domains that
  // the gang is in, preferably in the preferred ones. If they are at least `least`, their places
  // are taken; else the answer is empty. A gang that IsBound gets no reserved room.
  virtual std::vector<MoreTasks> Grow(const GangRequest& gang, const GangPlacement& has, int least,
                                      MayHaveMore may_have) = 0;

  // Finds the earliest time at which the gang fits for sure and keeps its place there: from now on
  // a gang that is not over by then is *bound*, and takes only what this one leaves. absl::nullopt
  // if it would not even fit once all that is held has gone and every Node is open, however long it
  // takes. At most once in a round.
  virtual absl::optional<StartEstimate> Reserve(const GangRequest& gang) = 0;
  virtual bool IsBound(const GangRequest& gang) const = 0;
  // Whether the gang would fit if it were not bound.
  virtual bool FitsUnbound(const GangRequest& gang) = 0;
  // Equal for gangs that the same Nodes are open to, now and once others have ended; empty where
  // all are open to all.
  virtual std::string Openings(const GangRequest& gang) const = 0;

  // Whether the gang fits once all that is told to end has gone, however late that is.
  virtual bool FitsAfterEnding(const GangRequest& gang) = 0;
  // Takes its place at once, if it fits where that goes now: nobody else is placed there, though
  // it is not free yet.
  virtual bool HoldAfterEnding(const GangRequest& gang) = 0;

  // The cheapest set found, minimal by inclusion, of gangs that make the gang fit by going, besides
  // what is told to end already, in the order of their positions; at most kMaxVictims. Each is told
  // with why it is needed, were all others gone. If there is one, its members count as told to end
  // and the gang's place is held as by HoldAfterEnding. Empty if there is none.
  virtual std::vector<Victim> FindVictims(const GangRequest& gang, int32_t priority,
                                          VictimRules* rules) = 0;

  // A cheap set of gangs, minimal by inclusion, such that, once all of them have ended, the gang
  // fits and each of them fits again beside it. If there is one that costs at most `max_cost`, its
  // members count as told to end, and the places of all are held as by HoldAfterEnding. Not all
  // sets are tried, so none may be found where there is one. `has_reservation`: what room is kept
  // for is the gang itself, which gives that up.
  virtual absl::optional<MovePlan> FindMoves(const GangRequest& gang, const MoveRules& rules,
                                             int64_t max_cost, bool has_reservation) = 0;
  // Takes the gang's place just there, if it is free now.
  virtual bool PlaceAt(const GangRequest& gang, const GangPlacement& placement) = 0;
  // The same, if it is free once all that is told to end has gone: nobody else is placed there.
  virtual bool HoldAt(const GangRequest& gang, const GangPlacement& placement) = 0;
};

// Decides where gangs go. Pure: equal arguments and calls give equal answers.
class Placer {
 public:
  virtual ~Placer() = default;

  // `nodes` is sorted by id. What is held is not part of what they have free. `label_keys`: of all
  // labels that a gang of this round asks by, so that others need not be looked at; null: any.
  virtual std::unique_ptr<PlacingRound> Begin(const std::vector<NodeCapacity>& nodes,
                                              const std::vector<HeldGang>& held,
                                              const std::set<std::string>* label_keys) const = 0;
  // The next of rounds that follow each other. Answers as one from Begin would; costs what has
  // changed since the one before, which must be gone, and a glance at the rest.
  virtual std::unique_ptr<PlacingRound> BeginNext(const std::vector<NodeCapacity>& nodes,
                                                  const std::vector<HeldGang>& held,
                                                  const std::set<std::string>* label_keys) {
    return Begin(nodes, held, label_keys);
  }
  std::unique_ptr<PlacingRound> Begin(const std::vector<NodeCapacity>& nodes,
                                      const std::vector<HeldGang>& held) const {
    return Begin(nodes, held, nullptr);
  }
  std::unique_ptr<PlacingRound> Begin(const std::vector<NodeCapacity>& nodes) const {
    return Begin(nodes, {}, nullptr);
  }
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_PLACER_H_
