#ifndef CAPSTAN_SERVICES_SCHEDULER_STORED_RECORDS_H_
#define CAPSTAN_SERVICES_SCHEDULER_STORED_RECORDS_H_

#include "libs/store/service_records.h"

namespace capstan::scheduler {

// For backup, restore and check of the store: that each gang's chunks are those that its head
// names, and each Job's Queue is there; and that no generation is begun twice
// (core/restored_record.h).
store::ServiceRecords StoredRecords();

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_STORED_RECORDS_H_
