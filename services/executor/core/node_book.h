#ifndef CAPSTAN_SERVICES_EXECUTOR_CORE_NODE_BOOK_H_
#define CAPSTAN_SERVICES_EXECUTOR_CORE_NODE_BOOK_H_

#include <map>
#include <string>

#include "libs/time/clock.h"
#include "services/executor/core/records.pb.h"

namespace capstan::executor {

// What the executor keeps of one Node. A Node is
//   unknown    -- first heard                 -->  returning: reported, withheld from renewal
//   heard      -- not heard for suspect_after -->  silent: reported, withheld from renewal
//   silent     -- heard again                 -->  returning: reported, still withheld
//   returning  -- scheduler acknowledged      -->  heard
struct NodeEntry {
  record::v1::NodeRecord record;
  // When a message of its agent last came in this life; at first, when the core was loaded.
  BootTime last_heard;

  bool silent() const { return record.observation().silent(); }
  // Whether its agent's renewals may be answered.
  bool renewable() const { return !silent() && !record.withheld(); }
};

using NodeBook = std::map<std::string, NodeEntry>;

}  // namespace capstan::executor

#endif  // CAPSTAN_SERVICES_EXECUTOR_CORE_NODE_BOOK_H_
