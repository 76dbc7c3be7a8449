#ifndef CAPSTAN_SERVICES_SCHEDULER_RECORD_READER_H_
#define CAPSTAN_SERVICES_SCHEDULER_RECORD_READER_H_

#include <cstdint>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "libs/store/store.h"

namespace capstan::scheduler {

// Every record of the core, as of one revision.
struct Records {
  std::vector<store::KeyValue> kvs;
  int64_t revision = 0;
};

// Reads the core's records page by page, all at one revision; `done` runs once, on the store's
// strand. The outbox and the leadership key are not read. A caller that may be gone by then guards
// `done` itself; `store` must outlive the reading.
void ReadRecords(store::Store* store, absl::AnyInvocable<void(absl::StatusOr<Records>)> done);

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_RECORD_READER_H_
