#include "services/scheduler/core/quota/rate_gate.h"

#include <algorithm>

#include "absl/time/time.h"

namespace capstan::scheduler {
namespace {

// 24 h at most, hence below 2^47.
uint64_t Nanoseconds(absl::Duration period) {
  return static_cast<uint64_t>(absl::ToInt64Nanoseconds(period));
}

}  // namespace

TokenBucket::TokenBucket(const Rate& rate, BootTime now)
    : rate_(rate), as_of_(now), level_(static_cast<Level>(rate.burst) * Nanoseconds(rate.period)) {}

TokenBucket::Level TokenBucket::LevelAt(BootTime now) const {
  const Level full = static_cast<Level>(rate_.burst) * Nanoseconds(rate_.period);
  if (now <= as_of_) return level_;
  const uint64_t elapsed =
      static_cast<uint64_t>(now.ToNanoseconds()) - static_cast<uint64_t>(as_of_.ToNanoseconds());
  return std::min(full, level_ + static_cast<Level>(elapsed) * static_cast<uint64_t>(rate_.count));
}

BootTime TokenBucket::AvailableAt(int64_t count, BootTime now) const {
  if (count > rate_.burst) return BootTime::InfiniteFuture();
  const Level wanted = static_cast<Level>(count) * Nanoseconds(rate_.period);
  const Level there = LevelAt(now);
  if (there >= wanted) return now;
  const uint64_t rate = static_cast<uint64_t>(rate_.count);
  const Level wait = (wanted - there + rate - 1) / rate;
  const BootTime from = std::max(now, as_of_);
  if (wait > static_cast<Level>(INT64_MAX)) return BootTime::InfiniteFuture();
  return from + absl::Nanoseconds(static_cast<int64_t>(wait));
}

bool TokenBucket::Take(int64_t count, BootTime now) {
  const Level wanted = static_cast<Level>(count) * Nanoseconds(rate_.period);
  const Level there = LevelAt(now);
  if (there < wanted) return false;
  level_ = there - wanted;
  as_of_ = std::max(as_of_, now);
  return true;
}

RateGate::RateGate(const QueueTree& tree, Kind kind, BootTime now, const Buckets& before)
    : tree_(&tree) {
  buckets_.reserve(tree.size());
  for (int i = 0; i < tree.size(); ++i) {
    const QueueNode& node = tree.node(i);
    const absl::optional<Rate>& rate = kind == Kind::kSubmit ? node.submit_rate : node.start_rate;
    buckets_.push_back(absl::nullopt);
    if (!rate.has_value()) continue;
    const auto known = before.find(node.id);
    buckets_.back() = known != before.end() && known->second.rate() == *rate
                          ? known->second
                          : TokenBucket(*rate, now);
  }
}

RateGate::Buckets RateGate::TakeBuckets() const {
  Buckets buckets;
  for (size_t i = 0; i < buckets_.size(); ++i) {
    if (buckets_[i].has_value()) buckets.emplace(tree_->node(static_cast<int>(i)).id, *buckets_[i]);
  }
  return buckets;
}

absl::optional<RateRefusal> RateGate::Check(int leaf, int64_t count, BootTime now) const {
  absl::optional<RateRefusal> refusal;
  for (int i = leaf; i >= 0; i = tree_->node(i).parent) {
    if (!buckets_[i].has_value()) continue;
    const BootTime available = buckets_[i]->AvailableAt(count, now);
    if (available <= now) continue;
    if (!refusal.has_value() || refusal->available < available) refusal = {i, available};
  }
  return refusal;
}

absl::optional<RateRefusal> RateGate::Take(int leaf, int64_t count, BootTime now) {
  const absl::optional<RateRefusal> refusal = Check(leaf, count, now);
  if (refusal.has_value()) return refusal;
  for (int i = leaf; i >= 0; i = tree_->node(i).parent) {
    if (buckets_[i].has_value()) buckets_[i]->Take(count, now);
  }
  return absl::nullopt;
}

}  // namespace capstan::scheduler
