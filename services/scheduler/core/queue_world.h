#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_QUEUE_WORLD_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_QUEUE_WORLD_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "libs/random/random.h"
#include "services/scheduler/core/core_harness.h"
#include "services/scheduler/core/events.h"
#include "services/scheduler/core/quota/queue_spec.h"
#include "services/scheduler/core/quota/queue_tree.h"
#include "services/scheduler/core/scheduler_core.h"

namespace capstan::scheduler {

// What random_tree.h makes, as somebody would create it, in the order given: `r0` are so many
// thousandths of a core, and no other resource is left.
std::vector<CreateQueue> CreatesOf(const std::vector<QueueSpec>& specs, int64_t millis_of_unit);

// For tests: a core whose Nodes are full as long as anybody wants them, with Jobs that go on coming
// and ending in each Queue of a tree without Queues below it. Only cores are scarce. Equal seeds
// make equal worlds.
class QueueWorld {
 public:
  struct Options {
    uint64_t seed = 1;
    std::vector<QueueSpec> queues;  // of `r0` alone
    absl::Duration min_runtime = absl::Minutes(5);
    // Cores of a Job, in thousandths: one of these.
    std::vector<int64_t> sizes = {1000};
    int nodes = 2;
    int64_t millis_of_node = 16'000;
    // Ticks that a Job runs: from the first to the second.
    int least_ticks = 4;
    int most_ticks = 12;
    // Jobs that wait in each Queue that is loaded, at least.
    int backlog = 3;
  };
  static constexpr absl::Duration kTick = absl::Seconds(10);

  explicit QueueWorld(const Options& options);

  // What is due ends, what is missing is submitted to these leaves, and all that is placed runs.
  void Tick(const std::set<int>& loaded);

  const QueueTree& tree() const { return tree_; }
  // Thousandths of a core: of all Nodes, and by node of the tree what the gangs that hold a place
  // have, and what these ask for with those that wait.
  int64_t capacity() const;
  std::vector<int64_t> Used() const;
  // By node of the tree: what ComputeFairShares makes of that.
  std::vector<int64_t> FairShares() const;
  int64_t GuaranteeOf(int node) const;
  // Of a Job.
  int64_t smallest() const;
  int64_t largest() const;
  // By node of the tree, Jobs placed so far in it and below.
  const std::map<int, int>& starts() const { return starts_; }
  int preemptions() const;
  CoreHarness& harness() { return harness_; }

 private:
  static CoreConfig Config(const Options& options);
  void SawStep(const Step* step);
  void EndDue(const std::set<int>& loaded);
  void Load(int leaf);

  const Options options_;
  Random random_;
  QueueTree tree_;
  int tick_ = 0;
  int jobs_ = 0;
  std::map<std::string, int> ends_at_;  // by key of a Task, the tick
  std::map<int, int> starts_;
  std::set<std::string> archive_;  // uids that are to leave
  // Last: it tells of its steps from the first on.
  CoreHarness harness_;
  FakeExecutor executor_;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_QUEUE_WORLD_H_
