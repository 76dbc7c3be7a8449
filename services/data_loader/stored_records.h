#ifndef CAPSTAN_SERVICES_DATA_LOADER_STORED_RECORDS_H_
#define CAPSTAN_SERVICES_DATA_LOADER_STORED_RECORDS_H_

#include "libs/store/service_records.h"

namespace capstan::data_loader {

// For backup, restore and check of the store.
store::ServiceRecords StoredRecords();

}  // namespace capstan::data_loader

#endif  // CAPSTAN_SERVICES_DATA_LOADER_STORED_RECORDS_H_
