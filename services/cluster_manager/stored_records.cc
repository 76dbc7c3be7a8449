#include "services/cluster_manager/stored_records.h"

#include "services/cluster_manager/core/records.pb.h"

namespace capstan::cluster_manager {

store::ServiceRecords StoredRecords() {
  store::ServiceRecords records;
  records.service = "cluster_manager";
  records.kinds = {
      {"cluster/", &ClusterRecord::default_instance()},
      {"verdict/", &VerdictRecord::default_instance()},
      {"shards/", /*prototype=*/nullptr},
  };
  return records;
}

}  // namespace capstan::cluster_manager
