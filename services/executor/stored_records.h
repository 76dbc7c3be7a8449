#ifndef CAPSTAN_SERVICES_EXECUTOR_STORED_RECORDS_H_
#define CAPSTAN_SERVICES_EXECUTOR_STORED_RECORDS_H_

#include "libs/store/service_records.h"

namespace capstan::executor {

// For backup, restore and check of the store.
store::ServiceRecords StoredRecords();

}  // namespace capstan::executor

#endif  // CAPSTAN_SERVICES_EXECUTOR_STORED_RECORDS_H_
