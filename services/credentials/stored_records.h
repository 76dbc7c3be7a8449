#ifndef CAPSTAN_SERVICES_CREDENTIALS_STORED_RECORDS_H_
#define CAPSTAN_SERVICES_CREDENTIALS_STORED_RECORDS_H_

#include "libs/store/service_records.h"

namespace capstan::credentials {

// For backup, restore and check of the store.
store::ServiceRecords StoredRecords();

}  // namespace capstan::credentials

#endif  // CAPSTAN_SERVICES_CREDENTIALS_STORED_RECORDS_H_
