#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_RANDOM_QUEUES_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_RANDOM_QUEUES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "libs/random/random.h"
#include "proto/capstan/scheduler/v1/queue.pb.h"
#include "services/scheduler/core/core_harness.h"
#include "services/scheduler/core/events.h"

namespace capstan::scheduler {

// For tests: a small tree of Queues with guarantees and limits, and somebody who changes them,
// holds and drains them and sets their rates at random. It draws its own numbers, so that a world
// without it is what it was.
class RandomQueues {
 public:
  // Makes them. Outlived by the harness.
  RandomQueues(uint64_t seed, CoreHarness* harness);

  // One that Jobs go to.
  std::string Any();
  // Now and then somebody changes one.
  std::vector<Effect> MayChange();
  // Nothing is stopped any more, and no limit or rate is left.
  std::vector<Effect> Heal();

  int changes() const { return changes_; }

 private:
  capstan::scheduler::v1::ResourceQuota AnyQuota(int64_t most_guaranteed);
  UpdateQueue Update(const std::string& id, const std::vector<std::string>& paths) const;

  Random random_;
  CoreHarness* const harness_;
  int changes_ = 0;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_RANDOM_QUEUES_H_
