#include "services/telemetry/stored_records.h"

namespace capstan::telemetry {

store::ServiceRecords StoredRecords() {
  store::ServiceRecords records;
  records.service = "telemetry";
  return records;
}

}  // namespace capstan::telemetry
