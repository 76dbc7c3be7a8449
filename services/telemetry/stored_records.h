#ifndef CAPSTAN_SERVICES_TELEMETRY_STORED_RECORDS_H_
#define CAPSTAN_SERVICES_TELEMETRY_STORED_RECORDS_H_

#include "libs/store/service_records.h"

namespace capstan::telemetry {

// For backup, restore and check of the store.
store::ServiceRecords StoredRecords();

}  // namespace capstan::telemetry

#endif  // CAPSTAN_SERVICES_TELEMETRY_STORED_RECORDS_H_
