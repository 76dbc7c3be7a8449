#include "services/scheduler/core/quota/queue_histories.h"

#include <utility>

namespace capstan::scheduler {

NamedHistory QueueHistories::NamedOf(const QueueTree& tree, const Kept& kept) const {
  NamedHistory named;
  named.as_of = kept.history.as_of;
  named.half_life = kept.half_life;
  for (int r = 0; r < tree.resource_count(); ++r) {
    const NamedHistory::Amount amount = {kept.history.average[r], kept.history.fraction[r],
                                         kept.used[r]};
    if (amount != NamedHistory::Amount()) named.amounts[tree.resources().name(r)] = amount;
  }
  return named;
}

QueueHistories::Named QueueHistories::All(const QueueTree& tree) const {
  Named all;
  for (int i = 0; i < static_cast<int>(nodes_.size()); ++i) {
    if (nodes_[i].half_life > absl::ZeroDuration()) {
      all.emplace(tree.node(i).id, NamedOf(tree, nodes_[i]));
    }
  }
  return all;
}

void QueueHistories::SetTree(const QueueTree& tree, const Named& histories, absl::Time now) {
  nodes_.assign(tree.size(), {});
  kept_ = 0;
  for (int i = 1; i < tree.size(); ++i) {
    const QueueNode& node = tree.node(i);
    const auto before = histories.find(node.id);
    if (node.half_life <= absl::ZeroDuration()) {
      if (before != histories.end()) changed_.insert(node.id);
      continue;
    }
    ++kept_;
    Kept& kept = nodes_[i];
    kept.half_life = node.half_life;
    kept.history.as_of = now;
    if (before == histories.end()) continue;
    kept.history.as_of = before->second.as_of;
    for (const auto& [name, amount] : before->second.amounts) {
      const int r = tree.resources().Find(name);
      if (r < 0) continue;
      kept.history.average[r] = amount.average;
      kept.history.fraction[r] = amount.fraction;
      kept.used[r] = amount.used;
    }
    if (before->second.half_life == node.half_life) continue;
    Advance(kept.history, kept.used, before->second.half_life, now);
    changed_.insert(node.id);
  }
}

void QueueHistories::SettleNode(const TreeUsage& usage, int node, absl::Time now) {
  Kept& kept = nodes_[node];
  if (kept.half_life <= absl::ZeroDuration() || kept.used == usage.used(node)) return;
  Advance(kept.history, kept.used, kept.half_life, now);
  kept.used = usage.used(node);
  changed_.insert(usage.tree().node(node).id);
}

void QueueHistories::Settle(const TreeUsage& usage, int leaf, absl::Time now) {
  if (empty()) return;
  for (int node = leaf; node > QueueTree::kRoot; node = usage.tree().node(node).parent) {
    SettleNode(usage, node, now);
  }
}

void QueueHistories::SettleAll(const TreeUsage& usage, absl::Time now) {
  if (empty()) return;
  for (int node = 1; node < static_cast<int>(nodes_.size()); ++node) SettleNode(usage, node, now);
}

std::vector<UsageHistory> QueueHistories::At(absl::Time now) const {
  if (empty()) return {};
  std::vector<UsageHistory> histories(nodes_.size());
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].half_life <= absl::ZeroDuration()) continue;
    histories[i] = nodes_[i].history;
    Advance(histories[i], nodes_[i].used, nodes_[i].half_life, now);
  }
  return histories;
}

absl::optional<int> QueueHistories::Find(const QueueTree& tree, const std::string& id) const {
  const absl::optional<int> node = tree.Find(id);
  return node.has_value() && nodes_[*node].half_life > absl::ZeroDuration() ? node : absl::nullopt;
}

absl::optional<NamedHistory> QueueHistories::Renew(const QueueTree& tree, const std::string& id,
                                                   absl::Time now) {
  const absl::optional<int> node = Find(tree, id);
  if (!node.has_value()) return absl::nullopt;
  Kept& kept = nodes_[*node];
  Advance(kept.history, kept.used, kept.half_life, now);
  NamedHistory named = NamedOf(tree, kept);
  if (named.amounts.empty()) return absl::nullopt;
  return named;
}

std::set<std::string> QueueHistories::TakeChanged() { return std::exchange(changed_, {}); }

}  // namespace capstan::scheduler
