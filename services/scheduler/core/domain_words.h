// Domains as they are told of.
#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_DOMAIN_WORDS_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_DOMAIN_WORDS_H_

#include <string>
#include <vector>

#include "proto/capstan/scheduler/v1/job.pb.h"
#include "proto/capstan/scheduler/v1/job_service.pb.h"
#include "services/scheduler/core/placer.h"

namespace capstan::scheduler {

// The one of the level that the Node is in; without a name if it is in none.
capstan::scheduler::v1::ExplainJobResponse::Domain DomainAt(
    const NodeCapacity& node, capstan::scheduler::v1::Topology::Level level);

// The narrowest that all of these are in. They are of one Cluster, and not none.
capstan::scheduler::v1::ExplainJobResponse::Domain NarrowestOf(
    const std::vector<const NodeCapacity*>& nodes);

// `rack r11`, `clusters/c/nodes/n`, `clusters/c`.
std::string DomainInWords(const capstan::scheduler::v1::ExplainJobResponse::Domain& domain);

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_DOMAIN_WORDS_H_
