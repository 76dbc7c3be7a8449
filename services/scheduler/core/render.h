// From records to what the API shows.
#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_RENDER_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_RENDER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "proto/capstan/scheduler/v1/maintenance.pb.h"
#include "proto/capstan/scheduler/v1/node.pb.h"
#include "proto/capstan/scheduler/v1/queue.pb.h"
#include "services/scheduler/core/model.h"
#include "services/scheduler/core/usage.h"

namespace capstan::scheduler {

// RFC 7232 entity tag of a record's version, with quotes.
std::string EtagOf(int64_t version);
// The same of a Queue's content; what its own etag is makes no difference.
std::string EtagOf(capstan::scheduler::v1::Queue queue);

capstan::scheduler::v1::Job RenderJob(const JobEntry& job);
// `windows`: those that concern the Node.
capstan::scheduler::v1::Node RenderNode(const NodeId& id, const rec::NodeRecord& node,
                                        const NodeUsage::Entry& usage,
                                        const std::vector<const v1::MaintenanceWindow*>& windows);

// With what it used at `now`, if `usage` is not null.
capstan::scheduler::v1::Queue RenderQueue(const rec::QueueRecord& queue,
                                          const rec::QueueUsageRecord* usage, absl::Time now);

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_RENDER_H_
