#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_QUOTA_REQUEST_CLASSES_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_QUOTA_REQUEST_CLASSES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "services/scheduler/core/quota/resources.h"

namespace capstan::scheduler {

// What gangs need in all, each different amount kept once: a queued gang holds 4 bytes of it.
// Ids are reused when nobody holds them and mean nothing else. For one thread.
class RequestClasses {
 public:
  // The id of `request`, held once more.
  uint32_t Acquire(const Resources& request);
  // Holds the id once less.
  void Release(uint32_t id);
  // Only of an id that is held.
  const Resources& Get(uint32_t id) const { return classes_[id].request; }
  size_t size() const { return ids_.size(); }

 private:
  struct Class {
    Resources request;
    int64_t holders = 0;
  };

  std::vector<Class> classes_;
  std::vector<uint32_t> free_;
  absl::flat_hash_map<Resources, uint32_t> ids_;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_QUOTA_REQUEST_CLASSES_H_
