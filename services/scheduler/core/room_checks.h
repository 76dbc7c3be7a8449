#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_ROOM_CHECKS_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_ROOM_CHECKS_H_

#include <map>
#include <string>
#include <vector>

#include "services/scheduler/core/events.h"
#include "services/scheduler/core/model.h"
#include "services/scheduler/core/usage.h"

namespace capstan::scheduler {

// For tests: that no Node has more Tasks than it has room for, counting those that were placed and
// have not ended, by what is stored alone. Instances of MIG aside.
class RoomChecks {
 public:
  // Of a state as a step leaves it.
  static void Check(const Model& model);

  // Of each state in between, which a leader leaves that dies there: expects that no write gives a
  // Node more than it has room for. To be told of all writes, and of the keys that they deleted.
  void Apply(const Write& write, const std::vector<std::string>& deleted);

 private:
  using Use = std::map<NodeId, Amounts>;

  static Use UseOf(const JobEntry& job);

  ModelBuilder stored_;
  std::map<std::string, Use> uses_;  // by uid
  Use used_;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_ROOM_CHECKS_H_
