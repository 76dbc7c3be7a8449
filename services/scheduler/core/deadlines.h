#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_DEADLINES_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_DEADLINES_H_

#include <map>
#include <set>
#include <string>
#include <utility>

#include "libs/time/clock.h"

namespace capstan::scheduler {

// What is due when, by name; each has one time. What is asked for often, the first of them, costs
// nothing however many there are. For one thread.
class Deadlines {
 public:
  // Instead of the time that it had.
  void Set(const std::string& name, BootTime at) {
    Erase(name);
    times_.emplace(name, at);
    in_order_.emplace(at, name);
  }
  void Erase(const std::string& name) {
    const auto found = times_.find(name);
    if (found == times_.end()) return;
    in_order_.erase({found->second, name});
    times_.erase(found);
  }
  bool Has(const std::string& name) const { return times_.count(name) > 0; }

  // Infinite if there are none.
  BootTime next() const {
    return in_order_.empty() ? BootTime::InfiniteFuture() : in_order_.begin()->first;
  }
  // Of the next, of those at the same time the first by name; there must be one.
  const std::string& next_name() const { return in_order_.begin()->second; }

 private:
  std::map<std::string, BootTime> times_;
  std::set<std::pair<BootTime, std::string>> in_order_;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_DEADLINES_H_
