// What a scheduler asks the data_loader for a Job's Dataset, and what the answers say to its core: the
// same over gRPC and in simulation.
#ifndef CAPSTAN_SERVICES_SCHEDULER_ADAPTERS_LOAD_EVENTS_H_
#define CAPSTAN_SERVICES_SCHEDULER_ADAPTERS_LOAD_EVENTS_H_

#include "absl/status/status.h"
#include "proto/capstan/dataloader/v1/dataset.pb.h"
#include "services/scheduler/core/events.h"

namespace capstan::scheduler {

// `is_first`: a Job that is new to a load which failed before it came tries once more.
capstan::dataloader::v1::EnsureDataLoadRequest RequestFor(const EnsureData& wanted, bool is_first);

// Whether asking again could end differently without anyone having changed the Job.
bool MayPass(const absl::Status& refusal);
// Of one that can't.
DataFailed FailureOf(const EnsureData& wanted, const absl::Status& refusal);

// Whether nothing more comes of the load.
bool IsFinal(const capstan::dataloader::v1::DataLoad& load);
// DataReady or DataFailed if it is final, else DataProgressed.
Event EventOf(const EnsureData& wanted, const capstan::dataloader::v1::DataLoad& load);

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_ADAPTERS_LOAD_EVENTS_H_
