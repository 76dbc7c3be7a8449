#ifndef CAPSTAN_SERVICES_NODE_AGENT_CORE_UPLOAD_BUDGET_H_
#define CAPSTAN_SERVICES_NODE_AGENT_CORE_UPLOAD_BUDGET_H_

#include <cstdint>

#include "absl/time/time.h"
#include "libs/time/clock.h"

namespace capstan::node_agent {

// How much of a Node other Nodes may take: so many reads at once, and so many bytes a second for
// all of them. Pure.
class UploadBudget {
 public:
  // A rate of 0 is no bound.
  UploadBudget(int max_uploads, int64_t bytes_per_second)
      : max_uploads_(max_uploads), bytes_per_second_(bytes_per_second) {}

  // False if as many read as may; else End must follow.
  bool Begin();
  void End() { --uploads_; }
  int uploads() const { return uploads_; }

  // Takes `bytes`, to be sent after what it returns has passed. Who took first sends first.
  absl::Duration Take(int64_t bytes, BootTime now);

 private:
  const int max_uploads_;
  const int64_t bytes_per_second_;
  int uploads_ = 0;
  // When all that was taken has been sent.
  BootTime free_at_;
};

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_CORE_UPLOAD_BUDGET_H_
