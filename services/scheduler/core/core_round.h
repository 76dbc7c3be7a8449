// What the parts of a round share; of SchedulerCore alone.
#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_CORE_ROUND_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_CORE_ROUND_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "services/scheduler/core/explain.h"
#include "services/scheduler/core/held_book.h"
#include "services/scheduler/core/placer.h"
#include "services/scheduler/core/queue_victims.h"
#include "services/scheduler/core/quota/resources.h"
#include "services/scheduler/core/scheduler_core.h"
#include "services/scheduler/core/standing_book.h"
#include "services/scheduler/core/usage.h"

namespace capstan::scheduler {

struct SchedulerCore::RoundWork {
  RoundWork(HeldBook* held_book, StandingBook* standing_book)
      : held_book(held_book), standing_book(standing_book) {}
  ~RoundWork() {
    held_book->GiveBack(std::move(held), std::move(victims));
    standing_book->GiveBack(std::move(standings), std::move(nodes), disturbed);
  }
  RoundWork(const RoundWork&) = delete;
  RoundWork& operator=(const RoundWork&) = delete;

  // What is held comes from there, and where Nodes stand from here.
  HeldBook* const held_book;
  StandingBook* const standing_book;
  std::vector<NodeStanding> standings;
  std::vector<NodeCapacity> nodes;
  // Positions of those that the round has changed; there may be some twice.
  std::vector<int> disturbed;
  // By uid and position of the Node: see KeepForReturning.
  std::map<std::string, std::map<int, Amounts>> kept;
  std::vector<Returned> returned;
  // What shares are of, and what of it is free.
  Resources capacity;
  Resources free;
  std::vector<HeldGang> held;
  // By position among those held; in no queue once told to end in this round.
  std::vector<QueueVictims::Gang> victims;
  // Those that were.
  std::vector<QueueVictims::Gang> ended;
  // Why Jobs of a Shape whose groups have these names find no room, as the first one found it.
  std::map<std::string, std::string> words;
  // Of the labels that any gang of this round asks by.
  std::set<std::string> label_keys;
  std::unique_ptr<PlacingRound> placing;
  // Shapes with their Openings that do not fit, and those that do not fit if they are bound. In a
  // round room only shrinks: what did not fit once does not fit again.
  std::set<std::string> unfit;
  std::set<std::string> unfit_bound;
  // The former, by QueueBook::KindTerms::shape, where all Nodes are open to all.
  absl::flat_hash_set<uint64_t> unfit_shapes;
  // Shapes that no room could be kept for, whatever is open to them: every Node will be at last.
  std::set<std::string> unreservable;
  // Queue, amounts and priority of those that nobody may end for, wherever they would stand.
  std::set<std::tuple<int, uint32_t, int32_t>> unhelped;
  // Shape with Openings, Queue and priority of those for whom too few may end.
  std::set<std::tuple<std::string, std::string, int32_t>> vain;
  int victim_searches = 0;
  int victim_questions = 0;
  int reserve_attempts = 0;
  // Uids of gangs that are moved and cannot go where they were to.
  std::vector<std::string> misplaced;
  // Uids of those that are moved of which a Task is on a silent Node.
  std::set<std::string> stuck;
  // Some gang that is moved is on Nodes of which nothing was heard yet.
  bool awaits_report = false;
  // There are Nodes of a Cluster that has said nothing yet.
  bool awaits_any_report = false;
  // Shapes with their Openings for which nobody can be moved.
  std::set<std::string> immovable;
  int move_searches = 0;
  int revisions = 0;
  int revisions_put_off = 0;

  // The Node's, to be changed.
  NodeStanding& Standing(int at) {
    disturbed.push_back(at);
    return standings[at];
  }
  NodeCapacity& Capacity(int at) {
    disturbed.push_back(at);
    return nodes[at];
  }
  // Of the Node among `standings`; -1 if it is not there.
  int PositionOf(const NodeId& id) const { return scheduler::PositionOf(standings, id); }
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_CORE_ROUND_H_
