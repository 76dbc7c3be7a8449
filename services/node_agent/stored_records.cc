#include "services/node_agent/stored_records.h"

#include "services/node_agent/core/records.pb.h"
#include "services/node_agent/cursor.pb.h"

namespace capstan::node_agent {

store::ServiceRecords StoredRecords() {
  store::ServiceRecords records;
  records.service = "node_agent";
  records.kinds = {
      {"self", &nodeagent::record::v1::Self::default_instance()},
      {"confirmed", &nodeagent::record::v1::Confirmed::default_instance()},
      {"orders/", &nodeagent::record::v1::Order::default_instance()},
      {"tasks/", &nodeagent::record::v1::Task::default_instance()},
      {"cursors/", &nodeagent::record::v1::Cursor::default_instance()},
  };
  return records;
}

}  // namespace capstan::node_agent
