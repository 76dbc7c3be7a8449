#ifndef CAPSTAN_SERVICES_SCHEDULER_PORTS_DATA_SOURCE_H_
#define CAPSTAN_SERVICES_SCHEDULER_PORTS_DATA_SOURCE_H_

#include <cstdint>
#include <string>

#include "absl/functional/any_invocable.h"
#include "services/scheduler/core/events.h"

namespace capstan::scheduler {

// Brings Datasets to where Jobs can reach them. On the engine's strand only; reports come on it
// too, never from within a call.
class DataSource {
 public:
  // Takes DataProgressed, DataReady and DataFailed events.
  using Report = absl::AnyInvocable<void(Event)>;

  virtual ~DataSource() = default;

  // Reports progress, at most about twice a second, until ready or failed, which is the last
  // report. Trouble that may pass (the loader is down) is retried for as long as it takes and not
  // reported. Replaces what was asked before for the same Job and position.
  virtual void Ensure(const EnsureData& wanted, Report report) = 0;
  // No report about the Job from now on.
  virtual void Stop(const std::string& job_uid) = 0;
  // Releases what the generation has pinned; `released` runs once it is confirmed, however long
  // that takes.
  virtual void ReleasePins(const std::string& job_uid, int64_t generation,
                           absl::AnyInvocable<void()> released) = 0;
  // Forgets everything asked; no callback runs any more.
  virtual void StopAll() = 0;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_PORTS_DATA_SOURCE_H_
