// Amounts of several resources as numbers by position: cores in thousandths, memory in bytes,
// accelerators of each type in pieces, or whatever else the names stand for.
#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_QUOTA_RESOURCES_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_QUOTA_RESOURCES_H_

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace capstan::scheduler {

// Resources that the quota tree can tell apart.
inline constexpr int kMaxResources = 16;
// Bound of each amount, request, limit and capacity: 64 PiB of memory. Sums of two never overflow.
inline constexpr int64_t kMaxAmount = int64_t{1} << 56;
// More than any amount: no bound.
inline constexpr int64_t kNoBound = INT64_MAX;

// Which position stands for which resource: by name, so that it does not depend on any order of
// insertion.
class ResourceNames {
 public:
  ResourceNames() = default;
  // Sorts and drops doubles; of more than kMaxResources names the last are dropped (validation
  // refuses them before).
  explicit ResourceNames(std::vector<std::string> names);

  int size() const { return static_cast<int>(names_.size()); }
  const std::string& name(int index) const { return names_[index]; }
  // -1 if there is no such.
  int Find(absl::string_view name) const;

 private:
  std::vector<std::string> names_;
};

// By position in some ResourceNames; zero beyond them.
class Resources {
 public:
  constexpr Resources() : amounts_{} {}

  constexpr int64_t operator[](int index) const { return amounts_[index]; }
  constexpr int64_t& operator[](int index) { return amounts_[index]; }

  Resources& operator+=(const Resources& other) {
    for (int r = 0; r < kMaxResources; ++r) amounts_[r] += other.amounts_[r];
    return *this;
  }
  Resources& operator-=(const Resources& other) {
    for (int r = 0; r < kMaxResources; ++r) amounts_[r] -= other.amounts_[r];
    return *this;
  }
  friend Resources operator+(Resources a, const Resources& b) { return a += b; }
  friend Resources operator-(Resources a, const Resources& b) { return a -= b; }
  friend bool operator==(const Resources&, const Resources&) = default;
  template <typename H>
  friend H AbslHashValue(H state, const Resources& resources) {
    return H::combine(std::move(state), resources.amounts_);
  }

 private:
  std::array<int64_t, kMaxResources> amounts_;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_QUOTA_RESOURCES_H_
