#include "services/scheduler/core/round/resources.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace capstan::scheduler::round {

Dimensions::Dimensions() : names_{"cpu", "memory"}, parts_{1, 1} {}

int Dimensions::Find(absl::string_view name) const {
  const auto found = std::find(names_.begin(), names_.end(), name);
  return found == names_.end() ? -1 : static_cast<int>(found - names_.begin());
}

absl::StatusOr<Dimension> Dimensions::Intern(absl::string_view name, int parts) {
  const int found = Find(name);
  if (found >= 0) return static_cast<Dimension>(found);
  if (size() == kMaxDimensions) {
    return absl::ResourceExhaustedError(absl::StrCat("resource ", name,
                                                     " would be one kind more than the ",
                                                     kMaxDimensions, " that a fleet may have"));
  }
  names_.emplace_back(name);
  parts_.push_back(parts);
  return static_cast<Dimension>(names_.size() - 1);
}

Request Normalise(Request request) {
  std::sort(request.begin(), request.end());
  Request result;
  for (const Quantity& quantity : request) {
    if (quantity.amount <= 0) continue;
    if (!result.empty() && result.back().dimension == quantity.dimension) {
      result.back().amount = std::min(kMaxAmount, result.back().amount + quantity.amount);
    } else {
      result.push_back({quantity.dimension, std::min(kMaxAmount, quantity.amount)});
    }
  }
  return result;
}

void AddTo(ResourceVector& vector, const Request& request, int64_t times) {
  for (const Quantity& quantity : request) vector[quantity.dimension] += quantity.amount * times;
}

Request Sum(const Request& a, const Request& b, int64_t times) {
  ResourceVector total{};
  AddTo(total, a, 1);
  AddTo(total, b, times);
  Request result;
  for (int d = 0; d < kMaxDimensions; ++d) {
    if (total[d] > 0) result.push_back({static_cast<Dimension>(d), total[d]});
  }
  return result;
}

}  // namespace capstan::scheduler::round
