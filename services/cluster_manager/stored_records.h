#ifndef CAPSTAN_SERVICES_CLUSTER_MANAGER_STORED_RECORDS_H_
#define CAPSTAN_SERVICES_CLUSTER_MANAGER_STORED_RECORDS_H_

#include "libs/store/service_records.h"

namespace capstan::cluster_manager {

// For backup, restore and check of the store.
store::ServiceRecords StoredRecords();

}  // namespace capstan::cluster_manager

#endif  // CAPSTAN_SERVICES_CLUSTER_MANAGER_STORED_RECORDS_H_
