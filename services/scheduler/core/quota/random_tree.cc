#include "services/scheduler/core/quota/random_tree.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace capstan::scheduler {
namespace {

Limit RandomLimit(int64_t max, Random& random) {
  switch (random.Below(6)) {
    case 0:
      return Limit::Of(0);
    case 1:
      return Limit::Of(random.Between(0, max));
    case 2:
      return Limit::Unlimited();
    default:
      return Limit();
  }
}

}  // namespace

std::vector<QueueSpec> RandomQueues(const RandomTreeOptions& options, Random& random) {
  std::vector<QueueSpec> specs(options.queues);
  std::vector<int> depth(options.queues, 1);
  std::vector<bool> inner(options.queues, false);
  for (int i = 0; i < options.queues; ++i) {
    specs[i].id = absl::StrCat("q", i);
    specs[i].weight = random.Between(1, options.max_weight);
    const int parent = static_cast<int>(random.Below(i + 1)) - 1;
    if (parent < 0 || depth[parent] >= options.depth) continue;
    specs[i].parent = specs[parent].id;
    depth[i] = depth[parent] + 1;
    inner[parent] = true;
  }
  for (int i = 0; i < options.queues; ++i) {
    for (int r = 0; r < options.resources; ++r) {
      Quota& quota = specs[i].quotas[absl::StrCat("r", r)];
      if (!inner[i] && options.max_guarantee > 0 && random.OneIn(2)) {
        quota.guarantee = Limit::Of(random.Between(0, options.max_guarantee));
      }
      if (!options.limits) continue;
      quota.borrowing = RandomLimit(options.max_guarantee * 2, random);
      quota.lending = RandomLimit(options.max_guarantee, random);
    }
  }
  return specs;
}

std::vector<std::string> RandomResourceNames(int count) {
  std::vector<std::string> names;
  for (int r = 0; r < count; ++r) names.push_back(absl::StrCat("r", r));
  return names;
}

Resources RandomAmounts(int count, int64_t low, int64_t high, Random& random) {
  Resources amounts;
  for (int r = 0; r < count; ++r) amounts[r] = random.Between(low, high);
  return amounts;
}

std::vector<int> Leaves(const QueueTree& tree) {
  std::vector<int> leaves;
  for (int i = 1; i < tree.size(); ++i) {
    if (tree.leaf(i)) leaves.push_back(i);
  }
  return leaves;
}

}  // namespace capstan::scheduler
