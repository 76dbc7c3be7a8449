// Judges what benchmarks have the scheduler do, by what is stored and sent alone: nothing of how it
// decides is in here.
#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_BENCH_CHECKS_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_BENCH_CHECKS_H_

#include <cstdint>
#include <set>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "proto/capstan/type/v1/session.pb.h"
#include "proto/capstan/type/v1/task.pb.h"
#include "services/scheduler/core/model.h"

namespace capstan::scheduler {

// FAILED_PRECONDITION with the first of these rules that does not hold:
// - a gang that holds a place is whole, on Nodes that are there, and of the Job's newest generation;
// - no Node has given more than it has, of cores, memory and each accelerator;
// - no Queue, with those below it, uses more than its guarantee and what it may borrow;
// - no Queue that gives up Jobs for one that is not below it comes to have less than its guarantee;
// - no Job waits that asks for the same as another one of its Queue that was placed while it waited
//   and is of lower priority.
// UNIMPLEMENTED for what benchmarks have none of: MIG instances, gangs of varying size or that are
// moved. O(Jobs); of those that wait only those are unpacked that go before one that was placed.
absl::Status CheckPlacements(const Model& model);

// That executors hold Tasks of one generation of each Job at a time.
class GenerationCheck {
 public:
  // Told, once they have been taken, of what executors say and are told.
  void Said(const capstan::type::v1::Observations& observations);
  void Told(const capstan::type::v1::DesiredTasks& desired);

  // FAILED_PRECONDITION once two generations were held.
  const absl::Status& status() const { return status_; }

 private:
  struct Held {
    int64_t generation = 0;
    // By group and index.
    std::set<std::pair<std::string, int>> tasks;
  };

  void Hold(const capstan::type::v1::TaskKey& key);

  absl::flat_hash_map<std::string, Held> held_;  // by uid
  absl::Status status_;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_BENCH_CHECKS_H_
