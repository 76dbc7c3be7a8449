#include "services/scheduler/core/quota/resources.h"

#include <algorithm>
#include <utility>

namespace capstan::scheduler {

ResourceNames::ResourceNames(std::vector<std::string> names) : names_(std::move(names)) {
  std::sort(names_.begin(), names_.end());
  names_.erase(std::unique(names_.begin(), names_.end()), names_.end());
  if (names_.size() > kMaxResources) names_.resize(kMaxResources);
}

int ResourceNames::Find(absl::string_view name) const {
  for (int r = 0; r < size(); ++r) {
    if (names_[r] == name) return r;
  }
  return -1;
}

}  // namespace capstan::scheduler
