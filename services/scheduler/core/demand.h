#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_DEMAND_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_DEMAND_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "libs/time/clock.h"
#include "proto/capstan/scheduler/v1/demand.pb.h"
#include "services/scheduler/core/demand_class.h"
#include "services/scheduler/core/model.h"
#include "services/scheduler/core/node_terms.h"
#include "services/scheduler/core/usage.h"

namespace capstan::scheduler {

// When waiting Jobs are told of as unmet demand; see UnmetDemand in demand.proto.
struct DemandConfig {
  absl::Duration hold_for = absl::Seconds(30);
  absl::Duration release_after = absl::Minutes(2);
  absl::Duration starts_within = absl::Minutes(5);
  // Part of a class by which its figures may differ from what was told.
  int band_percent = 10;
};

// Classes in one message.
inline constexpr size_t kMaxDemandClasses = 256;

// What waiting Jobs wait for, as far as more Nodes would help and as far as not: sums that follow
// each Job as it changes, and what of them is told. A Job's change costs O(log Jobs); telling, what
// has changed; reading, the number of classes. Pure: equal calls give equal answers. For one
// thread.
class DemandBook {
 public:
  struct Count {
    int64_t jobs = 0;
    int64_t tasks = 0;
    friend bool operator==(const Count&, const Count&) = default;
  };

  // What a gang that is told of may wait for, and what others wait for: small closed sets.
  static std::vector<absl::string_view> Reasons();
  static std::vector<absl::string_view> Causes();

  // Tasks, all alike, that wait for room.
  struct Wanted {
    std::string queue;  // `queues/{queue}`
    // Where they may run, ascending; empty: anywhere.
    std::vector<std::string> clusters;
    Amounts each;
    int64_t tasks = 0;
  };

  explicit DemandBook(const DemandConfig& config) : config_(config) {}
  // Not copied: its parts point to each other.
  DemandBook(const DemandBook&) = delete;
  DemandBook& operator=(const DemandBook&) = delete;

  // The Job as stored now, or null once it is gone.
  void Update(const std::string& uid, const JobEntry* job, Now now);
  // All Jobs as stored, where it is not known what has changed. How long one that is new here has
  // waited is taken from its record, so that a process tells of it as soon as it begins.
  void Reset(const JobTable& jobs, Now now);
  // Queues as stored: a Job whose Queue starts nothing waits for that, whatever its record says.
  void SetQueues(const std::map<std::string, rec::QueueRecord>& queues, Now now);
  // Does what is due by time, and brings what is told up to it. True if that has changed.
  bool Advance(Now now);
  // When Advance has something to do: InfinitePast at once, InfiniteFuture only after an Update.
  BootTime NextDue() const;

  // What is told as of the last Advance, without revision and time: classes that may run in
  // `cluster`, or all if it is empty.
  capstan::scheduler::v1::UnmetDemand Told(absl::string_view cluster) const;
  // Sums of what is told, for each of Reasons().
  std::map<absl::string_view, Count> ToldByReason() const;
  // What waits and is not told of, for each of Causes().
  std::map<absl::string_view, Count> HeldBack() const;
  // All that waits and would start if there was room and its Queues let it, told of or not, gangs
  // with their least: what waits for data, for other Jobs or for a time, or in a Queue that starts
  // nothing, does not. O(classes), and no two of one Queue, Clusters and amounts need be one.
  std::vector<Wanted> WantedNow() const;

 private:
  // Why a Job waits; the first three are for Nodes. Named in kNames in this order.
  enum Why {
    kInsufficient,
    kReserved,
    kPreempted,
    // It seems that it may start without more Nodes.
    kStartsSoon,
    kWaiting,
    kMakingRoom,
    kQueueRate,
    // No Node would help.
    kQueueLimit,
    kQueueHeld,
    kHeldItself,
    kOrdered,
    kBackOff,
    kDependency,
    kArrayLimit,
    kAwaitingData,
    kOther,
    // Never of a Job itself: one that waits for Nodes, but not for long enough.
    kTooNew,
    kWhyCount
  };
  static constexpr int kReasonCount = kPreempted + 1;
  static const std::array<const char*, kWhyCount>& Names();
  static bool IsDemand(Why why) { return why < kReasonCount; }
  // More room, or higher limits, would have it start.
  static bool WantsRoom(Why why) { return why <= kQueueLimit || why == kOrdered; }
  static bool IsUnsettled(Why why) { return why >= kStartsSoon && why <= kQueueRate; }

  using TaskCounts = DemandNeed::TaskCounts;
  struct Shape {
    Amounts each;
    capstan::scheduler::v1::Topology::Level required;
    std::vector<capstan::scheduler::v1::TaskSlice> slices;
    NodeRequirements node_requirements;
  };
  // Key of an entry, which stays where it is: 8 bytes in each of the sets that a Job is in.
  struct Uid {
    const std::string* at;
    friend bool operator<(Uid a, Uid b) { return *a.at < *b.at; }
    friend bool operator==(Uid a, Uid b) { return *a.at == *b.at; }
  };
  struct Figures {
    Count all;
    // By shape.
    std::vector<int64_t> tasks;
    std::array<Count, kReasonCount> by_reason = {};
  };
  struct Class {
    // What is the same of all.
    std::vector<Shape> shapes;
    capstan::scheduler::v1::Topology::Level required;
    std::vector<std::string> clusters;
    std::string queue;
    int min_priority = 0;
    NodeRequirements node_requirements;
    Tolerations tolerations;

    // Jobs that wait, for whatever; and, by shape, Tasks of those that want room.
    int64_t members = 0;
    std::vector<int64_t> wanted;
    // Of those that are told of, once they have held.
    Figures current;
    absl::btree_set<std::tuple<int64_t, int64_t, Uid>> by_size;  // -Tasks, submission, uid
    absl::btree_set<std::pair<absl::Time, Uid>> by_age;          // waits since, uid
    // As told.
    Figures told;
    absl::Time told_since;
    std::string told_largest;  // uid
    std::string told_largest_name;
    TaskCounts told_largest_tasks;
  };
  using Classes = std::map<std::string, Class>;

  struct Entry {
    Classes::iterator at;
    std::string name;
    // By shape, and in all.
    TaskCounts tasks;
    int64_t total = 0;
    int64_t sequence = 0;
    absl::Time waits_since;
    // When it is near enough to its start; infinite if that is not known.
    absl::Time soon_at;
    // By its record, and with its Queue.
    Why own = kOther;
    Why why = kOther;
    // Since when `why` is what it is, and since when it is one for Nodes, or none.
    BootTime why_since;
    BootTime since;
    bool told = false;
    // While told: for what.
    Why told_why = kOther;
    BootTime due = BootTime::InfiniteFuture();
  };

  // Absent if the Job does not wait.
  absl::optional<Why> WhyOf(const JobEntry& job, absl::Time wall, absl::Time* soon_at) const;
  Why WithQueue(const Entry& entry) const;
  void Put(const std::string& uid, const JobEntry* job, Now now, BootTime since);
  // Its class, made if it is not there; and by shape the number of its Tasks.
  Classes::iterator ClassOf(const JobEntry& job, TaskCounts* tasks);
  void Remove(std::map<std::string, Entry>::iterator at);
  void SetWhy(Entry* entry, Why why, Now now);
  // Whether it is told of, by how long it has been what it is. `uid` is its key.
  void Settle(const std::string& uid, Entry* entry, Now now);
  // Adds it to the sums, or takes it out. `uid` is its key.
  void Add(const std::string& uid, const Entry& entry, int64_t sign);
  bool MustTell(const Class& of) const;
  void Tell(Class* of);
  bool OutOfBand(int64_t now, int64_t told, int64_t base) const;

  const DemandConfig config_;
  std::map<std::string, Entry> entries_;  // by uid: all that waits
  Classes classes_;
  std::array<Count, kWhyCount> held_back_ = {};
  absl::btree_set<std::pair<BootTime, Uid>> due_;
  std::set<std::string> changed_;  // keys of classes
  std::set<std::string> stopped_;  // `queues/{queue}` that start nothing
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_DEMAND_H_
