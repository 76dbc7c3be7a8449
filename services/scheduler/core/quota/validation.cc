#include "services/scheduler/core/quota/validation.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "services/scheduler/core/quota/rate.h"
#include "services/scheduler/core/quota/resources.h"

namespace capstan::scheduler {
namespace {

constexpr size_t kMaxIdLength = 63;

class Validation {
 public:
  explicit Validation(const std::vector<QueueSpec>& queues)
      : queues_(queues), parents_(queues.size(), kRoot), depths_(queues.size(), kUnknown) {}

  std::vector<QuotaViolation> Run() {
    if (queues_.size() > kMaxQueues) {
      Add("queues", absl::StrCat(queues_.size(), " queues; at most ", kMaxQueues, " are allowed"));
      return std::move(violations_);
    }
    CheckIds();
    CheckParents();
    CheckDepths();
    for (size_t i = 0; i < queues_.size(); ++i) CheckAmounts(i);
    CheckResourceCount();
    // Sums mean something only in a tree of valid amounts.
    if (violations_.empty()) CheckGuaranteeSums();
    return std::move(violations_);
  }

 private:
  static constexpr int kRoot = -1;
  static constexpr int kUnknown = -1;
  static constexpr int kInProgress = -2;

  static std::string Field(size_t i, absl::string_view name) {
    return absl::StrCat("queues[", i, "].", name);
  }
  static std::string QuotaField(size_t i, absl::string_view resource, absl::string_view name) {
    return absl::StrCat("queues[", i, "].quotas[\"", resource, "\"].", name);
  }
  void Add(std::string field, std::string description) {
    violations_.push_back({std::move(field), std::move(description)});
  }

  void CheckIds() {
    for (size_t i = 0; i < queues_.size(); ++i) {
      const std::string& id = queues_[i].id;
      if (id.empty() || id.size() > kMaxIdLength) {
        Add(Field(i, "id"),
            absl::StrCat("is ", id.size(), " characters long; expected 1 to ", kMaxIdLength));
      } else if (auto [it, added] = index_.emplace(id, static_cast<int>(i)); !added) {
        Add(Field(i, "id"), absl::StrCat("`", id, "` is also the id of queues[", it->second, "]"));
      }
    }
  }

  void CheckParents() {
    for (size_t i = 0; i < queues_.size(); ++i) {
      if (queues_[i].parent.empty()) continue;
      auto it = index_.find(queues_[i].parent);
      if (it == index_.end()) {
        Add(Field(i, "parent"), absl::StrCat("there is no queue `", queues_[i].parent,
                                             "`; expected one that `capstan queue list` shows"));
      } else {
        parents_[i] = it->second;
      }
    }
  }

  // Walks up from each queue until one whose depth is known; a cycle is reported once, at the queue
  // of it that comes first.
  void CheckDepths() {
    std::vector<int> path;
    for (size_t i = 0; i < queues_.size(); ++i) {
      path.clear();
      int at = static_cast<int>(i);
      while (at != kRoot && depths_[at] == kUnknown) {
        depths_[at] = kInProgress;
        path.push_back(at);
        at = parents_[at];
      }
      if (at != kRoot && depths_[at] == kInProgress) ReportCycle(at);
      int depth = at == kRoot || depths_[at] == kInProgress ? 0 : depths_[at];
      for (auto it = path.rbegin(); it != path.rend(); ++it) depths_[*it] = ++depth;
    }
    for (size_t i = 0; i < queues_.size(); ++i) {
      if (depths_[i] <= kMaxQueueDepth) continue;
      Add(Field(i, "parent"), absl::StrCat("is ", depths_[i], " levels below the root; at most ",
                                           kMaxQueueDepth, " are allowed"));
    }
  }

  void ReportCycle(int member) {
    int first = member;
    for (int at = parents_[member]; at != member; at = parents_[at]) first = std::min(first, at);
    std::string way = queues_[first].id;
    int length = 0;
    for (int at = parents_[first]; ++length <= 8; at = parents_[at]) {
      absl::StrAppend(&way, " -> ", queues_[at].id);
      if (at == first) break;
    }
    Add(Field(first, "parent"),
        absl::StrCat("is below itself: ", way, "; expected one that is not"));
  }

  void CheckAmounts(size_t i) {
    const QueueSpec& queue = queues_[i];
    if (queue.weight < 1 || queue.weight > kMaxQueueWeight) {
      Add(Field(i, "weight"),
          absl::StrCat("is ", queue.weight, "; expected 1 to ", kMaxQueueWeight));
    }
    CheckRate(Field(i, "submit_rate"), queue.submit_rate);
    CheckRate(Field(i, "start_rate"), queue.start_rate);
    if (queue.half_life.has_value() && *queue.half_life < absl::ZeroDuration()) {
      Add(Field(i, "half_life"),
          absl::StrCat("is ", absl::FormatDuration(*queue.half_life), "; expected 0 or more"));
    }
    for (const auto& [resource, quota] : queue.quotas) {
      if (resource.empty()) Add(Field(i, "quotas"), "a resource has no name");
      CheckLimit(QuotaField(i, resource, "guarantee"), quota.guarantee);
      CheckLimit(QuotaField(i, resource, "borrowing"), quota.borrowing);
      CheckLimit(QuotaField(i, resource, "lending"), quota.lending);
      if (quota.guarantee.unlimited()) {
        Add(QuotaField(i, resource, "guarantee"), "is unlimited; expected an amount");
      }
    }
  }

  void CheckRate(std::string field, const absl::optional<Rate>& rate) {
    if (!rate.has_value()) return;
    const auto in_bounds = [](int64_t count) { return count >= 1 && count <= kMaxRateCount; };
    if (!in_bounds(rate->count) || !in_bounds(rate->burst)) {
      Add(std::move(field), absl::StrCat("has a count of ", rate->count, " and a burst of ",
                                         rate->burst, "; expected 1 to ", kMaxRateCount));
    } else if (rate->period < absl::Nanoseconds(1) || rate->period > absl::Hours(24)) {
      Add(std::move(field), absl::StrCat("has a period of ", absl::FormatDuration(rate->period),
                                         "; expected more than 0 and at most 24h"));
    }
  }

  void CheckLimit(std::string field, const Limit& limit) {
    if (!limit.has_amount() || (limit.amount() >= 0 && limit.amount() <= kMaxAmount)) return;
    Add(std::move(field), absl::StrCat("is ", limit.amount(), "; expected 0 to ", kMaxAmount));
  }

  void CheckResourceCount() {
    std::set<std::string> names;
    for (const QueueSpec& queue : queues_) {
      for (const auto& [resource, quota] : queue.quotas) names.insert(resource);
    }
    if (names.size() > kMaxResources) {
      Add("queues", absl::StrCat("quotas name ", names.size(), " resources; at most ",
                                 kMaxResources, " are allowed"));
    }
  }

  // Deepest first, so that what the queues below are guaranteed is summed before it is compared.
  void CheckGuaranteeSums() {
    std::vector<int> order(queues_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
    std::stable_sort(order.begin(), order.end(),
                     [this](int a, int b) { return depths_[a] > depths_[b]; });
    std::vector<std::map<std::string, Wide>> below(queues_.size() + 1);
    for (int i : order) {
      std::map<std::string, Wide>& sums = below[i];
      for (const auto& [resource, quota] : queues_[i].quotas) {
        if (!quota.guarantee.has_amount()) continue;
        CheckSum(i, resource, quota.guarantee.amount(), sums[resource]);
        sums[resource] = quota.guarantee.amount();
      }
      std::map<std::string, Wide>& above =
          below[parents_[i] == kRoot ? queues_.size() : parents_[i]];
      for (const auto& [resource, sum] : sums) above[resource] += sum;
      sums.clear();
    }
    for (const auto& [resource, sum] : below.back()) CheckSum(kRoot, resource, kMaxAmount, sum);
  }

  using Wide = unsigned __int128;

  void CheckSum(int i, const std::string& resource, int64_t guarantee, Wide sum) {
    if (sum <= static_cast<Wide>(guarantee)) return;
    const std::string found = sum > static_cast<Wide>(INT64_MAX)
                                  ? "more than 2^63"
                                  : absl::StrCat(static_cast<int64_t>(sum));
    if (i == kRoot) {
      Add("queues", absl::StrCat("guarantees of `", resource, "` add up to ", found, "; at most ",
                                 guarantee, " can be counted"));
    } else {
      Add(QuotaField(i, resource, "guarantee"),
          absl::StrCat("is ", guarantee, ", less than the ", found,
                       " that the queues below it are guaranteed together"));
    }
  }

  const std::vector<QueueSpec>& queues_;
  std::map<std::string, int> index_;
  std::vector<int> parents_;
  std::vector<int> depths_;
  std::vector<QuotaViolation> violations_;
};

}  // namespace

std::vector<QuotaViolation> ValidateQueues(const std::vector<QueueSpec>& queues) {
  return Validation(queues).Run();
}

}  // namespace capstan::scheduler
