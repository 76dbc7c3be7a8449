#include "services/executor/stored_records.h"

#include "services/executor/core/records.pb.h"

namespace capstan::executor {

store::ServiceRecords StoredRecords() {
  store::ServiceRecords records;
  records.service = "executor";
  records.kinds = {
      {"self", &record::v1::Self::default_instance()},
      {"desired/", &record::v1::Desired::default_instance()},
      {"observed/", &record::v1::Observed::default_instance()},
      {"nodes/", &record::v1::NodeRecord::default_instance()},
      {"uids/", &record::v1::JobUid::default_instance()},
  };
  return records;
}

}  // namespace capstan::executor
