#include "libs/kube/testing/fault_plan.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace capstan::kube::testing {

bool RequestMatcher::Matches(const HttpRequest& request) const {
  if (!method.empty() && method != request.method) return false;
  const absl::string_view target = request.target;
  const absl::string_view path = target.substr(0, std::min(target.find('?'), target.size()));
  if (!absl::StrContains(path, path_contains)) return false;
  if (watch.has_value()) {
    const absl::string_view query = target.substr(path.size());
    const bool is_watch =
        absl::StrContains(query, "watch=true") || absl::StrContains(query, "watch=1");
    if (is_watch != *watch) return false;
  }
  return !also || also(request);
}

std::vector<FaultAction> FaultPlan::Take(const HttpRequest& request) {
  std::vector<FaultAction> actions;
  for (auto fault = faults_.begin(); fault != faults_.end();) {
    if (!fault->matcher.Matches(request)) {
      ++fault;
      continue;
    }
    if (fault->skip > 0) {
      --fault->skip;
      ++fault;
      continue;
    }
    actions.push_back(fault->action);
    if (fault->times > 0 && --fault->times == 0) {
      fault = faults_.erase(fault);
    } else {
      ++fault;
    }
  }
  return actions;
}

}  // namespace capstan::kube::testing
