#include "services/scheduler/core/gang_sizes.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace capstan::scheduler {

std::vector<int> LeastSizes(const GangRequest& gang) {
  std::vector<int> sizes;
  for (const GangRequest::Group& group : gang.groups) sizes.push_back(group.replicas);
  return sizes;
}

std::vector<int> MostSizes(const GangRequest& gang) {
  std::vector<int> sizes;
  for (const GangRequest::Group& group : gang.groups) sizes.push_back(group.most());
  return sizes;
}

bool MayHavePart(const GangRequest& gang, const OptionalPart& part) {
  return std::all_of(part.groups.begin(), part.groups.end(), [&gang](int g) {
    return gang.groups[g].most() >= std::max(gang.groups[g].least_of_part, 1);
  });
}

bool HasAnyOf(const OptionalPart& part, const std::vector<int>& sizes) {
  return std::any_of(part.groups.begin(), part.groups.end(), [&](int g) { return sizes[g] > 0; });
}

std::vector<int> MostThatMayBe(const GangRequest& gang,
                               absl::FunctionRef<bool(const std::vector<int>& sizes)> may_be) {
  std::vector<int> sizes = LeastSizes(gang);
  for (const OptionalPart& part : gang.parts) {
    if (!MayHavePart(gang, part) || HasAnyOf(part, sizes)) continue;
    if (part.within >= 0 && !HasAnyOf(gang.parts[part.within], sizes)) continue;
    std::vector<int> tried = sizes;
    for (const int g : part.groups) tried[g] = gang.groups[g].least_of_part;
    if (may_be(tried)) sizes = std::move(tried);
  }
  for (size_t g = 0; g < sizes.size(); ++g) {
    if (sizes[g] == 0) continue;
    const int step = gang.groups[g].step();
    int low = sizes[g] / step;
    int high = gang.groups[g].most() / step;
    while (low < high) {
      const int middle = low + (high - low + 1) / 2;
      sizes[g] = middle * step;
      if (may_be(sizes)) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    sizes[g] = low * step;
  }
  return sizes;
}

}  // namespace capstan::scheduler
