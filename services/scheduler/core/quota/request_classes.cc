#include "services/scheduler/core/quota/request_classes.h"

namespace capstan::scheduler {

uint32_t RequestClasses::Acquire(const Resources& request) {
  auto [it, added] = ids_.try_emplace(request, 0);
  if (added) {
    if (free_.empty()) {
      free_.push_back(static_cast<uint32_t>(classes_.size()));
      classes_.emplace_back();
    }
    it->second = free_.back();
    free_.pop_back();
    classes_[it->second] = {request, 0};
  }
  ++classes_[it->second].holders;
  return it->second;
}

void RequestClasses::Release(uint32_t id) {
  if (--classes_[id].holders > 0) return;
  ids_.erase(classes_[id].request);
  free_.push_back(id);
}

}  // namespace capstan::scheduler
