// Amounts of resources as vectors of interned dimensions.
#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_ROUND_RESOURCES_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_ROUND_RESOURCES_H_

#include <array>
#include <compare>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace capstan::scheduler::round {

// Kinds of resource that one fleet may have.
inline constexpr int kMaxDimensions = 32;

// Position of a kind of resource in every vector.
using Dimension = uint8_t;
// Thousandths of a core.
inline constexpr Dimension kCpuMillis = 0;
inline constexpr Dimension kMemoryBytes = 1;

// Names of dimensions, in the order in which they were first named. For one thread.
class Dimensions {
 public:
  Dimensions();

  // The dimension of that name, new if need be. RESOURCE_EXHAUSTED beyond kMaxDimensions.
  // `parts` of it make one device: 1, unless it counts slices.
  absl::StatusOr<Dimension> Intern(absl::string_view name, int parts = 1);
  // -1 if there is none of that name.
  int Find(absl::string_view name) const;
  const std::string& name(Dimension dimension) const { return names_[dimension]; }
  int parts(Dimension dimension) const { return parts_[dimension]; }
  int size() const { return static_cast<int>(names_.size()); }

 private:
  std::vector<std::string> names_;
  std::vector<int> parts_;
};

// An amount of each dimension.
using ResourceVector = std::array<int64_t, kMaxDimensions>;

struct Quantity {
  Dimension dimension = 0;
  int64_t amount = 0;

  friend auto operator<=>(const Quantity&, const Quantity&) = default;
};

// What is asked for: sorted by dimension, every amount above 0 and at most kMaxAmount.
using Request = std::vector<Quantity>;

// 8 PiB, and more tasks' worth than a cluster has: sums of 10^3 such amounts do not overflow.
inline constexpr int64_t kMaxAmount = int64_t{1} << 53;
// A limit that never binds.
inline constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

// Sorted, duplicates added up, amounts of 0 and less left out.
Request Normalise(Request request);
// Adds `times` of `request`.
void AddTo(ResourceVector& vector, const Request& request, int64_t times);
// Sum of two requests, the second `times` over.
Request Sum(const Request& a, const Request& b, int64_t times);

}  // namespace capstan::scheduler::round

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_ROUND_RESOURCES_H_
