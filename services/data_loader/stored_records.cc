#include "services/data_loader/stored_records.h"

#include "services/data_loader/core/records.pb.h"

namespace capstan::data_loader {

store::ServiceRecords StoredRecords() {
  store::ServiceRecords records;
  records.service = "data_loader";
  records.kinds = {
      {"dataset/", &DatasetRecord::default_instance()},
      {"version/", &VersionRecord::default_instance()},
      {"load/", &LoadRecord::default_instance()},
      {"bundle/", &BundleRecord::default_instance()},
      {"output/", &OutputRecord::default_instance()},
      {"pin/", &PinRecord::default_instance()},
      {"request/", &RequestRecord::default_instance()},
      {"owner/", /*prototype=*/nullptr},
  };
  return records;
}

}  // namespace capstan::data_loader
