#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_QUEUE_BOOK_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_QUEUE_BOOK_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "libs/time/clock.h"
#include "services/scheduler/core/model.h"
#include "services/scheduler/core/queue_victims.h"
#include "services/scheduler/core/quota/admission.h"
#include "services/scheduler/core/quota/gang_queues.h"
#include "services/scheduler/core/quota/queue_histories.h"
#include "services/scheduler/core/quota/queue_order.h"
#include "services/scheduler/core/quota/queue_spec.h"
#include "services/scheduler/core/quota/queue_tree.h"
#include "services/scheduler/core/quota/rate.h"
#include "services/scheduler/core/quota/rate_gate.h"
#include "services/scheduler/core/quota/request_classes.h"
#include "services/scheduler/core/quota/resources.h"
#include "services/scheduler/core/quota/tree_usage.h"
#include "services/scheduler/core/usage.h"

namespace capstan::scheduler {

// The quota tree with what waits and runs in it: who is next, and whether its queues let it start.
// Made from the model and kept beside it; of what it knows only the histories are stored, by who
// calls SettleUsage. For one thread.
class QueueBook {
 public:
  QueueBook() = default;
  QueueBook(const QueueBook&) = delete;
  QueueBook& operator=(const QueueBook&) = delete;

  // When all that follows happens.
  void SetNow(const Now& now) { now_ = now; }
  // What Queues used in the past, as stored; before the first SetTree. What is live then counts as
  // used since these were written.
  void Restore(const std::map<std::string, rec::QueueUsageRecord>& usage);

  // Queues as stored and every type of accelerator that Nodes have; of more than fit (see
  // kMaxResources) the last are not counted. Keeps what waits and runs, and what was used in the
  // past. O(all of it).
  void SetTree(const std::map<std::string, rec::QueueRecord>& queues,
               const std::set<std::string>& accelerators);

  const std::set<std::string>& accelerators() const { return accelerators_; }

  // What the Job's live Tasks use; or will, if a place is held for it or it returns to the one that
  // it has. What makes room for another uses nothing any more.
  void SetLive(const JobEntry& job);
  // The Job waits for room; it is fresh if it was not tried yet. It stays where it is until
  // removed. What it asks for and the reason that it has decide its kind: to be told again after
  // each try that changed the reason, and whenever it asks for something else.
  // Returns the number of its kind.
  uint32_t AddWaiting(const JobEntry& job, bool fresh);
  // Another Job of that kind, in which somebody must wait, that is not fresh and did not wait yet.
  void AddWaiting(SharedBytes identity, int64_t submit_sequence, uint32_t kind);
  void SetTried(const JobEntry& job);
  void SetChanged(const JobEntry& job);
  void RemoveWaiting(const JobEntry& job);
  bool IsWaiting(const JobEntry& job) const { return IsWaiting(job.spec.submit_sequence()); }
  bool IsWaiting(int64_t submit_sequence) const { return gangs_.count(submit_sequence) > 0; }
  // Adds the keys of the labels that those which wait ask by.
  void AddLabelKeys(std::set<std::string>* keys) const;
  size_t waiting() const { return gangs_.size(); }

  // Someone of the Job's Queue that waits has higher priority, and does not wait for a limit.
  bool IsOutranked(const JobEntry& job) const;
  // Someone of its Queue who goes before it is fresh.
  bool IsPrecededByFresh(const JobEntry& job) const;
  // Someone waits in another Queue.
  bool AnyOutside(const JobEntry& job) const;

  // Counts what was in use until now where that has changed; to be called once everything that
  // happens now has. Returns the ids of the Queues of which UsageOf is more than what time made of
  // it since they were returned before.
  std::set<std::string> SettleUsage();
  // Whether what the Queue used counts at all.
  bool KeepsUsage(const std::string& queue) const { return histories_.Keeps(tree_, queue); }
  // What the Queue used in the past and uses, as of now; absl::nullopt if nothing is to be kept.
  absl::optional<rec::QueueUsageRecord> UsageOf(const std::string& queue);

  // What is used, and what is free on these Nodes: that is what shares are of.
  Resources Capacity(const std::vector<Amounts>& free) const;
  // All that waits, or only what is fresh, in the order in which it is tried. Until it is gone,
  // nothing of what waits may change.
  QueueOrder Order(bool fresh_only, const Resources& capacity) const;
  // Uid of a gang of the order.
  std::string UidOf(const QueuedGang& gang) const;
  // That the limits of its Queues keep a Job from starting; room is not their question. The words
  // do not name what is in use: they are stored with every Job that waits for the limit, and would
  // have to be written anew with each start and end.
  struct LimitWait {
    std::string words;
    // However much starts beside it, a limit refuses it: not so where the fleet's guarantees that
    // are not lent do, since what they keep free may be used up.
    bool lasts = true;
    // `queues/{queue}` that says so; empty: the fleet, by what is guaranteed in it.
    std::string queue;
    // Empty if it starts nothing whatever it is.
    std::string resource;
    // What it may have, what counts as in use, and by how much that would grow.
    int64_t limit = 0;
    int64_t in_use = 0;
    int64_t requested = 0;
  };
  // Of the order's next gang.
  absl::optional<LimitWait> Refusal(const QueueOrder& order, const Resources& capacity) const;
  // Of a Job that waits, with use as it was last told.
  absl::optional<LimitWait> Refusal(const JobEntry& job, const Resources& capacity) const;
  // All that do, from its own Queue upwards.
  std::vector<LimitWait> Refusals(const JobEntry& job, const Resources& capacity) const;
  // Whether the limits let the order's next gang have so much beyond what it needs at least.
  bool MayUse(const QueueOrder& order, const Resources& capacity, const Amounts& more) const;
  // Whether they let the Job use so much beside all that is used, with use as it was last told.
  bool MayUse(const JobEntry& job, const Resources& capacity, const Amounts& amounts) const;
  // Whether they let a Job that runs use so much more: limits as for one that starts; and beyond
  // what is guaranteed to its queues it takes nothing of which some other queue's guarantee covers
  // what waits there. O(queues + kinds).
  bool MayGrow(const JobEntry& job, const Resources& capacity, const Amounts& more) const;
  // Whether the limits let the Job, which SetLive counts already, be placed again with all that it
  // is to have. Not so if others have begun in what Tasks of its that had done their work left.
  bool MayComeBack(const JobEntry& job);
  // What SetLive would count it as using.
  Resources UseOf(const JobEntry& job) const;

  // That a rate of the Queue, or of one above it, says no: in words that stay the same while it
  // does, and until when.
  struct RateWait {
    // `queues/{queue}` whose rate it is.
    std::string queue;
    std::string words;
    BootTime available;
  };
  // Counts a Job that is submitted to the Queue, or says why it may not be yet.
  absl::optional<RateWait> TakeSubmission(const std::string& queue);
  // Why the Job may not start yet; and counts one that starts.
  absl::optional<RateWait> StartWait(const JobEntry& job) const;
  void TakeStart(const JobEntry& job);
  // Whether rates let the order's next gang start.
  bool MayStartByRate(const QueueOrder& order) const;

  // What all gangs of a kind that wait have in common, as they were told to wait last.
  struct KindTerms {
    // This kind's, and no other's, ever: all of it have equal GangRequests.
    uint64_t number = 0;
    // Equal for kinds of the same GangRequest::Shape and for no others, ever.
    uint64_t shape = 0;
    // They were told what SaysNoRoom of.
    bool lacks_room = false;
    bool asks_for_mig = false;
  };
  const KindTerms& TermsOf(const QueuedGang& gang) const { return kinds_[gang.kind.id].terms; }

  // All amounts together.
  Resources Sum(const std::vector<Amounts>& amounts) const;
  // Gangs that hold a place, as the rules of the queues see them; of one in two parts
  // (HeldGang::is_spare) each with what is its own. Made once for all decisions of a round.
  std::vector<QueueVictims::Gang> GangsOf(const std::vector<HeldGang>& held) const;
  // Who of `held` may end for the order's next gang, of its own Queue those of less priority than
  // `standing`; it must outlive the answer. Those in `ended`
  // were chosen for others in this round: what they use counts no more. They are no part of `held`,
  // or in no queue there.
  QueueVictims VictimsFor(const QueueOrder& order, int32_t standing, const Resources& capacity,
                          const Resources& free, const std::vector<QueueVictims::Gang>& held,
                          const std::vector<QueueVictims::Gang>& ended) const;
  // A Job that waits, as it asks for its least; absent if its Queue is not there.
  absl::optional<QueueVictims::Gang> ClaimantOf(const JobEntry& job) const;
  // The same for that, with use as it was last told.
  QueueVictims VictimsFor(const QueueVictims::Gang& claimant, const Resources& capacity,
                          const Resources& free,
                          const std::vector<QueueVictims::Gang>& held) const {
    return QueueVictims(usage_, capacity, free, claimant, held);
  }

 private:
  struct Gang {
    SharedBytes identity;
    uint32_t kind = 0;
    bool fresh = true;
  };
  // What gangs have in common that are tried alike, and of whose record a try makes the same.
  struct Kind {
    std::string key;
    int64_t gangs = 0;
    std::string queue;
    int leaf = -1;
    int32_t priority = 0;
    Amounts amounts;
    uint32_t request = 0;
    bool waits_for_limit = false;
    KindTerms terms;
    std::string shape;
    std::set<std::string> label_keys;
  };
  struct Live {
    std::string queue;
    Amounts amounts;
  };

  absl::optional<LimitWait> Refusal(const TreeUsage& usage, const Resources& capacity, int leaf,
                                    const Resources& request) const;
  LimitWait WaitOf(const QuotaRefusal& refusal, const Resources& request) const;
  // Whether a guarantee of the leaf, or of a queue above it, covers so much more of the resource.
  bool IsGuaranteed(int leaf, int r, int64_t amount) const;
  // Whether something waits in the leaf that a guarantee covers which is not the other leaf's too.
  bool AsksForGuarantee(int leaf, int other, int r) const;
  // What the Queue uses now counts as used since the history's time.
  void TakeForUsed(const std::string& id, NamedHistory* history);
  RateWait WaitOf(const RateRefusal& refusal, absl::string_view does,
                  absl::optional<Rate> QueueNode::* rate) const;
  QueuedGang QueuedOf(int64_t sequence, const Gang& gang) const;
  void Insert(int64_t sequence, const Gang& gang);
  void Erase(int64_t sequence, const Gang& gang);
  void SetKind(const JobEntry& job, bool fresh, Gang* gang);
  // The number of the Job's kind, held once more; and held once less.
  uint32_t AcquireKind(const JobEntry& job);
  void ReleaseKind(uint32_t id);
  // Puts it into the tree.
  void Bind(Kind* kind);

  std::set<std::string> accelerators_;
  QueueTree tree_;
  TreeUsage usage_{tree_};
  GangQueues waiting_{tree_};
  RequestClasses requests_;
  std::vector<Kind> kinds_;
  std::vector<uint32_t> free_kinds_;
  absl::flat_hash_map<std::string, uint32_t> kind_ids_;  // by key
  // By Shape, its number, and how many kinds have it.
  absl::flat_hash_map<std::string, std::pair<uint64_t, int64_t>> shapes_;
  uint64_t last_shape_ = 0;
  uint64_t last_kind_ = 0;
  std::map<std::string, int64_t> label_keys_;  // how many kinds ask by each
  Now now_;
  RateGate submissions_{tree_, RateGate::Kind::kSubmit, BootTime()};
  RateGate starts_{tree_, RateGate::Kind::kStart, BootTime()};
  QueueHistories histories_;
  absl::optional<QueueHistories::Named> restored_;
  // Leaves whose use is not settled.
  std::set<int> unsettled_;
  bool all_unsettled_ = false;
  absl::btree_map<int64_t, Gang> gangs_;  // by submit_sequence
  std::map<std::string, Live> live_;      // by uid
};

// Names that a tree of these counts: `cpu`, `memory`, those of quotas, and the others while there is
// room (kMaxResources). What was used and is gone from the fleet may come back.
std::vector<std::string> CountedResources(const std::vector<QueueSpec>& specs,
                                          const std::set<std::string>& accelerators,
                                          const QueueHistories::Named& histories);

// The amounts as the tree counts them: resources that it does not know count nothing.
Resources ResourcesOf(const QueueTree& tree, const Amounts& amounts);

// Whether a Job that waits and was told so is told nothing else while room is lacking.
bool SaysNoRoom(absl::string_view reason);

// -1 if the tree has no such leaf.
int LeafOf(const QueueTree& tree, const std::string& queue);

// What all Tasks use that the Job needs at least.
Amounts LeastOf(const JobEntry& job);

// The queues as the quota tree takes them, by id.
std::vector<QueueSpec> QueueSpecsOf(const std::map<std::string, rec::QueueRecord>& queues);

// Whether the queue may be added to the others: INVALID_ARGUMENT with the fields of `queue` that
// are wrong, FAILED_PRECONDITION with reason QUEUE_HAS_JOBS if its parent has Jobs that are not
// over.
absl::Status CheckNewQueue(const Model& model, const std::string& id,
                           const capstan::scheduler::v1::Queue& queue);

// Whether the queue may become so: INVALID_ARGUMENT as above.
absl::Status CheckChangedQueue(const Model& model, const std::string& id,
                               const capstan::scheduler::v1::Queue& queue);

// Id of the uppermost queue, the one itself included, that the predicate holds of; "" if of none.
std::string QueueAbove(const Model& model, const std::string& id,
                       bool (*holds)(const capstan::scheduler::v1::Queue&));

// The nearest queue of the Job, its own first, that the predicate holds of; null if of none.
const capstan::scheduler::v1::Queue* NearestQueue(
    const Model& model, const JobEntry& job, bool (*holds)(const capstan::scheduler::v1::Queue&));

// True if there are queues below it.
bool HasQueuesBelow(const Model& model, const std::string& id);

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_QUEUE_BOOK_H_
