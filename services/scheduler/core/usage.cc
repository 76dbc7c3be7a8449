#include "services/scheduler/core/usage.h"

#include <algorithm>

namespace capstan::scheduler {

Amounts Amounts::From(const capstan::type::v1::Resources& resources) {
  Amounts amounts;
  amounts.cpu_millis = resources.cpu_millis();
  amounts.memory_bytes = resources.memory_bytes();
  for (const auto& [name, count] : resources.accelerators()) {
    if (count != 0) amounts.accelerators[name] = count;
  }
  return amounts;
}

capstan::type::v1::Resources Amounts::ToResources() const {
  capstan::type::v1::Resources resources;
  resources.set_cpu_millis(cpu_millis);
  resources.set_memory_bytes(memory_bytes);
  for (const auto& [name, count] : accelerators) (*resources.mutable_accelerators())[name] = count;
  return resources;
}

void Amounts::Add(const Amounts& other, int64_t times) {
  cpu_millis += times * other.cpu_millis;
  memory_bytes += times * other.memory_bytes;
  for (const auto& [name, count] : other.accelerators) {
    int64_t& mine = accelerators[name];
    mine += times * count;
    if (mine == 0) accelerators.erase(name);
  }
}

int64_t Amounts::Fits(const Amounts& each, int64_t limit) const {
  auto bound = [&limit](int64_t have, int64_t need) {
    if (need > 0) limit = std::min(limit, std::max<int64_t>(have, 0) / need);
  };
  bound(cpu_millis, each.cpu_millis);
  bound(memory_bytes, each.memory_bytes);
  for (const auto& [name, need] : each.accelerators) {
    auto it = accelerators.find(name);
    bound(it == accelerators.end() ? 0 : it->second, need);
  }
  return limit;
}

bool Amounts::AnyBelowZero() const {
  return cpu_millis < 0 || memory_bytes < 0 ||
         std::any_of(
             accelerators.begin(), accelerators.end(),
             [](const auto& entry) { return entry.second < 0; });
}

void NodeUsage::Update(const std::string& uid, const JobEntry* job) {
  const bool has_any = job != nullptr && job->live();
  if (!has_any && shares_.count(uid) == 0) return;
  std::map<NodeId, Share>& shares = shares_[uid];
  for (const auto& [node, share] : shares) {
    Entry& entry = nodes_[node];
    entry.allocated.Subtract(share.amounts);
    entry.task_count -= share.task_count;
    entry.jobs.erase(uid);
    if (entry.task_count == 0) nodes_.erase(node);
  }
  shares.clear();
  if (has_any) {
    const Gang& gang = *job->gang;
    int rank = 0;
    for (int g = 0; g < job->spec.spec().task_groups_size(); ++g) {
      const Amounts each = Amounts::From(job->spec.spec().task_groups(g).resources());
      const int size = SizeOf(*job, g);
      for (int i = 0; i < size; ++i, ++rank) {
        if (gang.ended(rank)) continue;
        Share& share = shares[gang.node(rank)];
        share.amounts.Add(each);
        ++share.task_count;
      }
    }
  }
  for (const auto& [node, share] : shares) {
    Entry& entry = nodes_[node];
    entry.allocated.Add(share.amounts);
    entry.task_count += share.task_count;
    entry.jobs.insert(uid);
  }
  if (shares.empty()) shares_.erase(uid);
}

const NodeUsage::Entry& NodeUsage::Get(const NodeId& node) const {
  static const Entry* const kEmpty = new Entry();
  auto it = nodes_.find(node);
  return it == nodes_.end() ? *kEmpty : it->second;
}

std::vector<std::pair<NodeId, Amounts>> NodeUsage::SharesOf(const std::string& uid) const {
  std::vector<std::pair<NodeId, Amounts>> amounts;
  auto it = shares_.find(uid);
  if (it == shares_.end()) return amounts;
  for (const auto& [node, share] : it->second) amounts.emplace_back(node, share.amounts);
  return amounts;
}

std::set<NodeId> NodeUsage::NodesOf(const std::string& uid) const {
  std::set<NodeId> nodes;
  auto it = shares_.find(uid);
  if (it == shares_.end()) return nodes;
  for (const auto& [node, share] : it->second) nodes.insert(node);
  return nodes;
}

}  // namespace capstan::scheduler
