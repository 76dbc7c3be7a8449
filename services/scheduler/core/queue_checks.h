#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_QUEUE_CHECKS_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_QUEUE_CHECKS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "libs/time/clock.h"
#include "proto/capstan/event/v1/job_event.pb.h"
#include "services/scheduler/core/model.h"
#include "services/scheduler/core/quota/queue_tree.h"
#include "services/scheduler/core/quota/rate.h"
#include "services/scheduler/core/quota/tree_usage.h"

namespace capstan::scheduler {

// For tests: judges after each step, by what is stored and told alone, that what was placed in it
// was what its Queues let start as they stand: none of them was held or drained, none came to have
// more than its limit, and none started more than its rate. Of gangs that return to their place
// only the limit is asked.
class QueueChecks {
 public:
  // Rates begin anew.
  void NewLeader() { windows_.clear(); }
  // `events`: all so far, the model as of the last of them.
  void Check(const Model& model, const std::vector<capstan::event::v1::JobEvent>& events, Now now);

  // Jobs that were judged against a limit, and against a rate.
  int64_t limited() const { return limited_; }
  int64_t rated() const { return rated_; }

 private:
  // Starts of a Queue since its rate is what it is.
  struct Window {
    Rate rate;
    BootTime since;
    int64_t starts = 0;
  };

  void CheckStops(const Model& model, const JobEntry& job);
  void CheckLimits(const TreeUsage& usage, const JobEntry& job);
  void CheckRates(const QueueTree& tree, const JobEntry& job, Now now);

  size_t seen_ = 0;
  std::map<std::string, std::string> reasons_;  // told last, by uid
  std::map<std::string, Window> windows_;       // by Queue
  int64_t limited_ = 0;
  int64_t rated_ = 0;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_QUEUE_CHECKS_H_
