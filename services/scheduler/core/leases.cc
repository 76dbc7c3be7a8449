#include "services/scheduler/core/leases.h"

#include <algorithm>

namespace capstan::scheduler {

void LeaseTable::AddCluster(const std::string& cluster, BootTime now) {
  clusters_.try_emplace(cluster, ClusterLease{now, false, BootTime(), false});
}

void LeaseTable::AddNode(const NodeId& node, bool silent, bool given_up, BootTime now) {
  if (!nodes_.try_emplace(node, NodeLease{silent, now, silent && given_up}).second || !silent) {
    return;
  }
  silent_nodes_.insert(node);
  Judge(now);
}

void LeaseTable::Heard(const std::string& cluster, BootTime now) {
  ClusterLease& lease = clusters_[cluster];
  lease.heard_at = now;
  lease.confirmed = false;
  if (!lease.silent) return;
  lease.silent = false;
  Judge(now);
}

void LeaseTable::ReportNode(const NodeId& node, bool silent, BootTime now) {
  NodeLease& lease = nodes_[node];
  if (lease.silent == silent) return;
  lease.silent = silent;
  lease.fell_at = now;
  lease.confirmed = false;
  if (silent) {
    silent_nodes_.insert(node);
  } else {
    silent_nodes_.erase(node);
  }
  Judge(now);
}

std::vector<std::string> LeaseTable::Expire(BootTime now) {
  std::vector<std::string> fallen;
  for (auto& [cluster, lease] : clusters_) {
    if (lease.silent || now < lease.heard_at + config_.suspect_after) continue;
    lease.silent = true;
    lease.fell_at = now;
    lease.confirmed = false;
    fallen.push_back(cluster);
  }
  if (!fallen.empty()) Judge(now);
  return fallen;
}

BootTime LeaseTable::NextExpiry() const {
  BootTime next = BootTime::InfiniteFuture();
  for (const auto& [cluster, lease] : clusters_) {
    if (!lease.silent) next = std::min(next, lease.heard_at + config_.suspect_after);
  }
  return next;
}

std::vector<NodeId> LeaseTable::SilentNodes() const {
  std::vector<NodeId> silent;
  for (const NodeId& node : silent_nodes_) {
    if (!ClusterSilent(node.cluster)) silent.push_back(node);
  }
  for (const auto& [cluster, lease] : clusters_) {
    if (!lease.silent) continue;
    for (auto node = nodes_.lower_bound({cluster, ""});
         node != nodes_.end() && node->first.cluster == cluster; ++node) {
      silent.push_back(node->first);
    }
  }
  std::sort(silent.begin(), silent.end());
  return silent;
}

bool LeaseTable::ClusterSilent(const std::string& cluster) const {
  auto it = clusters_.find(cluster);
  return it == clusters_.end() || it->second.silent;
}

bool LeaseTable::NodeSilent(const NodeId& node) const {
  auto it = nodes_.find(node);
  return it == nodes_.end() || it->second.silent || ClusterSilent(node.cluster);
}

BootTime LeaseTable::ConfirmedBound(const NodeId& node) const {
  auto cluster = clusters_.find(node.cluster);
  auto it = nodes_.find(node);
  if (cluster == clusters_.end() || it == nodes_.end()) return BootTime::InfiniteFuture();
  if (!it->second.silent) return cluster->second.heard_at;
  return it->second.fell_at;
}

void LeaseTable::Confirm() {
  for (auto& [cluster, lease] : clusters_) lease.confirmed = lease.silent;
  for (auto& [node, lease] : nodes_) lease.confirmed = lease.silent;
  executors_frozen_ = false;
  nodes_frozen_ = false;
}

void LeaseTable::Judge(BootTime now) {
  const BootTime window = now - config_.freeze_window;
  int silent = 0;
  int fell = 0;
  for (const auto& [cluster, lease] : clusters_) {
    if (!lease.silent || lease.confirmed) continue;
    ++silent;
    if (lease.fell_at >= window) ++fell;
  }
  JudgeOne(static_cast<int>(clusters_.size()), silent, fell, config_.freeze_min_executors,
           &executors_frozen_);
  silent = 0;
  fell = 0;
  int total = 0;
  for (const auto& [node, lease] : nodes_) {
    if (ClusterSilent(node.cluster)) continue;
    ++total;
    if (!lease.silent || lease.confirmed) continue;
    ++silent;
    if (lease.fell_at >= window) ++fell;
  }
  JudgeOne(total, silent, fell, config_.freeze_min_nodes, &nodes_frozen_);
}

void LeaseTable::JudgeOne(int total, int silent, int fell, int minimum, bool* frozen) const {
  auto too_many = [&](int count) {
    return count >= minimum && count * 100 > total * config_.freeze_percent;
  };
  if (too_many(fell)) {
    *frozen = true;
  } else if (!too_many(silent)) {
    *frozen = false;
  }
}

}  // namespace capstan::scheduler
