#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_HELD_BOOK_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_HELD_BOOK_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "libs/time/clock.h"
#include "services/scheduler/core/explain.h"
#include "services/scheduler/core/held_gangs.h"
#include "services/scheduler/core/model.h"
#include "services/scheduler/core/placer.h"
#include "services/scheduler/core/queue_book.h"
#include "services/scheduler/core/queue_victims.h"
#include "services/scheduler/core/usage.h"

namespace capstan::scheduler {

// The gangs that hold a place as rounds see them, kept from one round to the next: a round costs
// what those come to that have changed, and a glance at each of the others for what time makes of
// it. For one thread.
class HeldBook {
 public:
  // What a round sees beside the book.
  struct Scene {
    const Model& model;
    const NodeUsage& usage;
    const QueueBook& queues;
    // By position of the Node.
    const std::vector<NodeStanding>& standings;
    // Room kept for gangs that come back, by uid and position.
    const std::map<std::string, std::map<int, Amounts>>& kept;
    // Since when those run that do, by uid.
    const std::map<std::string, BootTime>& started_at;
    Now now;
    // Where no Queue says how long a Job has to run before it may be ended for another.
    absl::Duration min_runtime;
  };

  // Looks at the Job, which has changed in any way or is new.
  void SetChanged(const JobEntry& job);
  // All have to be looked at again: Queues are others, say.
  void SetAllChanged() { all_changed_ = true; }

  // Uids of those that are ending and are to come back to their places at once.
  const std::set<std::string>& coming_back() const { return coming_back_; }
  // Adds the keys of the labels that live gangs ask by.
  void AddLabelKeys(std::set<std::string>* keys) const;

  // Gives every gang that holds a place, by uid, as a Placer is told of it and as the rules of the
  // Queues see it. Until GiveBack, which is before the next Take, the book has none.
  void Take(const Scene& scene, std::vector<HeldGang>* held,
            std::vector<QueueVictims::Gang>* victims);
  // The same lists, which may be longer by now; of those that the round has made anything else of
  // the Job changes before the next Take.
  void GiveBack(std::vector<HeldGang> held, std::vector<QueueVictims::Gang> victims);

 private:
  // What stays the same of it until its Job changes.
  struct Entry {
    HeldTerms terms;
    absl::optional<BootTime> started;
    absl::Duration min_runtime;
    bool was_disrupted = false;
    // Looked at in this round.
    bool is_new = true;
  };
  // One gang, in one part or two.
  struct Part {
    Entry entry;
    HeldGang gang;
    QueueVictims::Gang victim;
  };

  // What a round finds on some Nodes only.
  struct NodesSeen {
    explicit NodesSeen(const std::vector<NodeStanding>& standings);
    void AddTo(const HeldGang& gang, HeldFacts* facts) const;
    const std::vector<NodeStanding>& standings;
    // Any is silent or stops what runs there.
    bool any = false;
  };

  // Of a live gang; `used` and `started` may be null.
  std::vector<Part> LookAt(const Scene& scene, const NodesSeen& nodes, const JobEntry& job,
                           const std::map<NodeId, NodeUsage::Share>* used, const BootTime* started);
  void Append(std::vector<Part> parts);
  // A spare part is right behind the other; from that position on.
  void SetSpares(size_t from);
  static void SetPreemptible(const Scene& scene, const Entry& entry, absl::Duration ran,
                             HeldGang* gang);
  bool HasSameNodes(const std::vector<NodeStanding>& standings) const;
  void LookAtAll(const Scene& scene, const NodesSeen& nodes);
  void LookAtChanged(const Scene& scene, const NodesSeen& nodes);
  void LookAtOthers(const Scene& scene, const NodesSeen& nodes);

  // By uid. In all three the same positions.
  std::vector<Entry> entries_;
  std::vector<HeldGang> held_;
  std::vector<QueueVictims::Gang> victims_;
  bool all_changed_ = true;
  std::set<std::string> changed_;
  std::set<std::string> coming_back_;
  std::vector<NodeId> nodes_;  // that positions are of
  uint64_t revisions_ = 0;
  // Of live gangs that ask by any: by uid; and how many do by each.
  std::map<std::string, std::set<std::string>> keys_of_;
  std::map<std::string, int64_t> label_keys_;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_HELD_BOOK_H_
