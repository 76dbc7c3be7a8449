#include "services/node_agent/core/upload_budget.h"

#include <algorithm>

namespace capstan::node_agent {

bool UploadBudget::Begin() {
  if (uploads_ >= max_uploads_) return false;
  ++uploads_;
  return true;
}

absl::Duration UploadBudget::Take(int64_t bytes, BootTime now) {
  if (bytes_per_second_ <= 0) return absl::ZeroDuration();
  const BootTime start = std::max(free_at_, now);
  free_at_ = start + absl::Seconds(1) *
                         (static_cast<double>(bytes) / static_cast<double>(bytes_per_second_));
  return start - now;
}

}  // namespace capstan::node_agent
