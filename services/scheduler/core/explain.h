#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_EXPLAIN_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_EXPLAIN_H_

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "proto/capstan/scheduler/v1/job_service.pb.h"
#include "services/scheduler/core/model.h"
#include "services/scheduler/core/placer.h"
#include "services/scheduler/core/record_pool.h"
#include "services/scheduler/core/usage.h"

namespace capstan::scheduler {

// A Node with why it takes nothing.
struct NodeStanding {
  NodeCapacity capacity;
  bool silent = false;
  bool cordoned = false;
  bool draining = false;
  // It cannot keep strangers' Tasks apart.
  bool unisolated = false;
  // Uid of the Job that it was ordered for and is kept for: see NodeCapacity::order.
  std::string nominee;
  // A maintenance window lasts.
  bool maintained = false;
  // In how long such a window stops what runs there.
  absl::Duration evicts_in = absl::InfiniteDuration();
};

// Standing of every Node at `now`, sorted by id; good while no Node of the model changes.
// `draining` are Nodes known to be shutting down and `unreported` ones not yet heard of in the
// executor's present session, both beside what the records say.
std::vector<NodeStanding> Standings(const Model& model, const NodeUsage& usage,
                                    const std::set<NodeId>& draining,
                                    const std::set<NodeId>& unreported, absl::Time now);

// The same of one Node.
NodeStanding StandingOf(const Model& model, const NodeUsage& usage, const NodeId& id,
                        const rec::NodeRecord& node, bool is_draining, bool is_unreported,
                        absl::Time now);

// Of the Node among these, which are sorted by id; -1 if it is not there.
int PositionOf(const std::vector<NodeStanding>& standings, const NodeId& id);

// What was looked at for a Job that waits for room; good as long as the standings are.
struct RoomSearch {
  // With the orders of capacity on whose Nodes it may be.
  GangRequest gang;
  // Nodes that it may be on, by the domain of the level that all of it must be in one of.
  std::map<std::string, std::vector<const NodeCapacity*>> domains;
  // There is room for it.
  bool fits = false;
};

// Says why the Job is where it is. For one that waits for room: which constraint fails on how many
// Nodes and by how much, after as many of its Tasks as fit have been put down.
// Of those in its Queue that might be ended for it, how many are protected by a disruption budget.
// `search`, if given: what was looked at; no domains if it does not wait for room.
// `waiting_with_gang`, if given: what JobTable::WaitingWithGang says.
capstan::scheduler::v1::ExplainJobResponse ExplainJob(
    const Model& model, const JobEntry& job, const std::vector<NodeStanding>& nodes, absl::Time now,
    RoomSearch* search = nullptr, const std::vector<JobGlance>* waiting_with_gang = nullptr);

// The same look for room of a Job that waits for something else.
RoomSearch LookForRoom(const JobEntry& job, const std::vector<NodeStanding>& nodes);

// The summary of the above for a Job that found no place in a round, without looking at other Jobs.
std::string RoomInWords(const JobEntry& job, const std::vector<NodeStanding>& nodes);

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_EXPLAIN_H_
