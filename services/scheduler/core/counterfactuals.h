// All that ExplainJob of the API answers.
#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_COUNTERFACTUALS_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_COUNTERFACTUALS_H_

#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "proto/capstan/scheduler/v1/job_service.pb.h"
#include "services/scheduler/core/core_config.h"
#include "services/scheduler/core/explain.h"
#include "services/scheduler/core/model.h"
#include "services/scheduler/core/queue_book.h"
#include "services/scheduler/core/queue_sight.h"
#include "services/scheduler/core/record_pool.h"
#include "services/scheduler/core/usage.h"
#include "services/scheduler/core/whole_nodes.h"

namespace capstan::scheduler {

// Why the Job is where it is, with what holds it back outside of the Nodes, and, if it waits, what
// would let it start:
// - what would have to come free (freeing.h), in the nearest of 64 domains;
// - who would end for it (preemption_outlook.h), and when it would fit by itself: looked for on the
//   256 Nodes that lack least, so that in larger fleets others may end than is said here. Jobs of
//   its own Project are named, of others it says how many they are;
// - how much higher limits of its Queues would have to be (queue_waits.h);
// - when it starts, if room is kept for it.
// Whoever asks has the strand wait: O(Nodes + gangs that hold a place) beside what is bounded, and
// where more than 16,384 gangs do, without what takes them all into account.
capstan::scheduler::v1::ExplainJobResponse ExplainWhole(const Model& model, const NodeUsage& usage,
                                                        const JobEntry& job,
                                                        const std::vector<NodeStanding>& nodes,
                                                        const CoreConfig& config, absl::Time now);

// What the explanations of several Jobs have in common, of one model, usage and Nodes, for as long
// as these stay where and as they are.
struct CommonSight {
  // Null where SeeQueues says so.
  std::unique_ptr<QueueSight> queues;
  WholeNodes whole;
  std::vector<JobGlance> waiting_with_gang;
};
CommonSight SeeCommon(const Model& model, const NodeUsage& usage,
                      const std::vector<NodeStanding>& nodes, absl::Time now);
// With a book of the Queues that is kept.
CommonSight SeeCommon(const QueueBook& book, const Model& model, const NodeUsage& usage,
                      const std::vector<NodeStanding>& nodes);
// As above.
capstan::scheduler::v1::ExplainJobResponse ExplainWhole(const Model& model, const NodeUsage& usage,
                                                        const JobEntry& job,
                                                        const std::vector<NodeStanding>& nodes,
                                                        const CommonSight& common,
                                                        const CoreConfig& config, absl::Time now);

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_COUNTERFACTUALS_H_
