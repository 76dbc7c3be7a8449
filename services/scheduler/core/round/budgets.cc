#include "services/scheduler/core/round/budgets.h"

#include <algorithm>

namespace capstan::scheduler::round {

QueueId Budgets::AddQueue(absl::optional<QueueId> parent) {
  queues_.emplace_back();
  queues_.back().parent = parent;
  queues_.back().left.fill(kUnlimited);
  return static_cast<QueueId>(queues_.size() - 1);
}

void Budgets::SetLeft(QueueId queue, Dimension dimension, int64_t left) {
  queues_[queue].left[dimension] = left;
}

bool Budgets::above_guarantee(QueueId queue) const {
  return queue < queues_.size() && queues_[queue].above_guarantee;
}

bool Budgets::may_reclaim(QueueId queue) const {
  return queue < queues_.size() && queues_[queue].may_reclaim;
}

absl::optional<Budgets::Refusal> Budgets::Refuses(QueueId queue, const Request& demand) const {
  if (queue >= queues_.size()) return absl::nullopt;
  for (absl::optional<QueueId> at = queue; at.has_value(); at = queues_[*at].parent) {
    for (const Quantity& quantity : demand) {
      const int64_t left = queues_[*at].left[quantity.dimension];
      if (left < quantity.amount) return Refusal{*at, quantity.dimension, left};
    }
  }
  return absl::nullopt;
}

void Budgets::Charge(QueueId queue, const Request& demand, int64_t times) {
  if (queue >= queues_.size()) return;
  for (absl::optional<QueueId> at = queue; at.has_value(); at = queues_[*at].parent) {
    for (const Quantity& quantity : demand) {
      int64_t& left = queues_[*at].left[quantity.dimension];
      if (left != kUnlimited) left -= quantity.amount * times;
    }
  }
}

int64_t Budgets::Times(QueueId queue, const Request& demand, int64_t limit) const {
  if (queue >= queues_.size()) return limit;
  for (absl::optional<QueueId> at = queue; at.has_value(); at = queues_[*at].parent) {
    for (const Quantity& quantity : demand) {
      const int64_t left = std::max<int64_t>(0, queues_[*at].left[quantity.dimension]);
      limit = std::min(limit, left / quantity.amount);
    }
  }
  return limit;
}

}  // namespace capstan::scheduler::round
