#include "tools/capstan/admin/stored_services.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/capstan/telemetry/v1/stream.pb.h"
#include "services/cluster_manager/stored_records.h"
#include "services/credentials/stored_records.h"
#include "services/data_loader/stored_records.h"
#include "services/executor/stored_records.h"
#include "services/node_agent/stored_records.h"
#include "services/scheduler/stored_records.h"
#include "tools/capstan/dev/parts.h"

namespace capstan::admin {

std::vector<StoredService> StoredServices() {
  std::vector<StoredService> services;
  const auto add = [&](store::ServiceRecords records, bool backed_up) {
    records.kinds.push_back({"outbox/", &telemetry::v1::AppendRecordsRequest::default_instance()});
    records.kinds.push_back({"leader", nullptr});
    services.push_back({std::move(records), backed_up});
  };
  add(scheduler::StoredRecords(), true);
  add(cluster_manager::StoredRecords(), true);
  add(data_loader::StoredRecords(), true);
  add(credentials::StoredRecords(), true);
  add(executor::StoredRecords(), false);
  add(node_agent::StoredRecords(), false);
  return services;
}

std::string StoreFile(const std::string& data_dir, absl::string_view service) {
  return absl::StrCat(dev::PartFolder(data_dir, service), "/store.sqlite");
}

}  // namespace capstan::admin
