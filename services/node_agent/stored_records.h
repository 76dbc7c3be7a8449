#ifndef CAPSTAN_SERVICES_NODE_AGENT_STORED_RECORDS_H_
#define CAPSTAN_SERVICES_NODE_AGENT_STORED_RECORDS_H_

#include "libs/store/service_records.h"

namespace capstan::node_agent {

// For backup, restore and check of the store.
store::ServiceRecords StoredRecords();

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_STORED_RECORDS_H_
