#ifndef CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_GRANT_BOOK_H_
#define CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_GRANT_BOOK_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "libs/session/task_id.h"
#include "services/node_agent/core/step.h"

namespace capstan::node_agent {

// The grants of the Tasks that are on this Node, as what calls to services carry: metadata for
// rpc::CallOptions, empty for Tasks without a grant. Thread-safe.
class GrantBook {
 public:
  using Metadata = std::vector<std::pair<std::string, std::string>>;

  // Level: replaces the Task's.
  void Hold(const HoldGrant& grant);
  void Drop(const session::TaskId& id);

  Metadata OfTask(const session::TaskId& id) const;
  // Of any Task of the Job's generation; the holder is `<job uid>/<generation>`.
  Metadata OfHolder(absl::string_view holder) const;
  // Of any Task of any generation of `projects/{p}/jobs/{j}`: logs of an older one are still on
  // their way when the next one runs.
  Metadata OfJob(absl::string_view job) const;

 private:
  struct Held {
    std::string job;
    std::string grant;
  };

  mutable absl::Mutex mutex_;
  // A Node has some hundred Tasks at most: looked through.
  std::map<session::TaskId, Held> held_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_GRANT_BOOK_H_
