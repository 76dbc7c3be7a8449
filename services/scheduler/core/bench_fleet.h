// The fleet that the core's benchmarks share: every Node of 8 GPUs has one Job.
#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_BENCH_FLEET_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_BENCH_FLEET_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "libs/random/random.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "proto/capstan/type/v1/task.pb.h"
#include "services/scheduler/core/bench_queues.h"
#include "services/scheduler/core/model.h"

namespace capstan::scheduler::bench_fleet {

inline constexpr char kCluster[] = "c";
inline constexpr int kShapes = 20;

// Of the Node of that number.
std::string NodeName(int index);
// What it says of itself.
capstan::type::v1::NodeObservation NodeReport(int index);

// So many Tasks of so many GPUs each; `queue` by number.
capstan::scheduler::v1::JobSpec Gang(int tasks, int gpus, int queue);

// Of 1 to 16 Tasks with 1 to 8 GPUs each, by `shape`, less than kShapes; `queue` by number.
capstan::scheduler::v1::JobSpec SpecOf(int shape, int queue);

// Adds a Job that is QUEUED, `uid-N` for the Nth of the model.
JobEntry& AddQueued(capstan::scheduler::v1::JobSpec spec, absl::Time submitted, Model* model);

// Such a Job with a state as a round leaves it that found no room for it: in project p, named by
// its uid.
JobEntry Told(capstan::scheduler::v1::JobSpec spec, absl::Time submitted, const std::string& uid,
              int64_t submit_sequence);
// Adds one, `uid-N` too.
JobEntry& AddTold(capstan::scheduler::v1::JobSpec spec, absl::Time submitted, Model* model);

// Makes of SpecOf one as people write them, of about 1 KiB, which no other Job has.
capstan::scheduler::v1::JobSpec LargeSpecOf(int shape, int queue, Random* random);

// Adds the Queues of a fleet of so many Nodes.
void AddQueues(const QueueShape& shape, int nodes, Model* model);

// Adds these, and to each Node a Job of the highest priority that has run since `started`, in the
// order of Nodes. Nodes are not added.
void AddFull(int nodes, absl::Time started, Model* model, const QueueShape& shape = {});

}  // namespace capstan::scheduler::bench_fleet

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_BENCH_FLEET_H_
