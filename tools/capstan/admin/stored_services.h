#ifndef CAPSTAN_TOOLS_CAPSTAN_ADMIN_STORED_SERVICES_H_
#define CAPSTAN_TOOLS_CAPSTAN_ADMIN_STORED_SERVICES_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "libs/store/service_records.h"

namespace capstan::admin {

// A part of the platform with a store.
struct StoredService {
  store::ServiceRecords records;
  // False for executor and node agent; see platform_backup.h.
  bool backed_up = false;
};

// In the order of backing up. `outbox/` and `leader` are among the kinds.
std::vector<StoredService> StoredServices();

// The file of the part's store.
std::string StoreFile(const std::string& data_dir, absl::string_view service);

}  // namespace capstan::admin

#endif  // CAPSTAN_TOOLS_CAPSTAN_ADMIN_STORED_SERVICES_H_
