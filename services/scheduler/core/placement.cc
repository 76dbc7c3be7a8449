#include "services/scheduler/core/placement.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"

namespace capstan::scheduler {

GangRequest GangRequest::From(const JobEntry& job) {
  GangRequest request;
  for (const auto& group : job.spec.spec().task_groups()) {
    request.groups.push_back({group.replicas(), Amounts::From(group.resources())});
  }
  request.clusters.insert(job.spec.spec().clusters().begin(), job.spec.spec().clusters().end());
  if (!job.state.data_cluster().empty()) request.clusters = {job.state.data_cluster()};
  request.submitter = job.spec.submitter();
  return request;
}

std::string GangRequest::Shape() const {
  std::string shape = submitter;
  for (const std::string& cluster : clusters) absl::StrAppend(&shape, "|", cluster);
  for (const Group& group : groups) {
    absl::StrAppend(&shape, ";", group.replicas, ",", group.each.cpu_millis, ",",
                    group.each.memory_bytes);
    for (const auto& [name, count] : group.each.accelerators) {
      absl::StrAppend(&shape, ",", name, "=", count);
    }
  }
  return shape;
}

bool Admits(const NodeCapacity& node, const GangRequest& gang) {
  if (!node.eligible) return false;
  if (!gang.clusters.empty() && gang.clusters.count(node.id.cluster) == 0) return false;
  return !node.only_submitter || *node.only_submitter == gang.submitter;
}

namespace {

// More Tasks than a gang may have.
constexpr int64_t kAny = int64_t{1} << 30;

// Places the groups in `order` on the Nodes at `candidates`; false if they do not fit.
bool PlaceOrdered(const GangRequest& gang, const std::vector<NodeCapacity>& nodes,
                  const std::vector<int>& candidates, const std::vector<int>& order,
                  GangPlacement* placement) {
  std::vector<Amounts> free;
  for (int candidate : candidates) free.push_back(nodes[candidate].free);
  std::vector<int> first_rank;
  int ranks = 0;
  for (const GangRequest::Group& group : gang.groups) {
    first_rank.push_back(ranks);
    ranks += group.replicas;
  }
  placement->assign(ranks, -1);
  // The Node of the rank before is filled up first, so that consecutive ranks share it.
  int open = -1;
  for (int index : order) {
    const GangRequest::Group& group = gang.groups[index];
    int rank = first_rank[index];
    int64_t left = group.replicas;
    std::vector<int64_t> fits(candidates.size());
    for (size_t i = 0; i < candidates.size(); ++i) fits[i] = free[i].Fits(group.each, kAny);
    while (left > 0) {
      if (open < 0 || fits[open] == 0) {
        open = -1;
        for (size_t i = 0; i < candidates.size(); ++i) {
          if (fits[i] == 0) continue;
          if (open < 0) {
            open = static_cast<int>(i);
            continue;
          }
          const int64_t mine = std::min(fits[i], left);
          const int64_t best = std::min(fits[open], left);
          // Most of what is left; among equals the tightest.
          if (mine > best || (mine == best && fits[i] < fits[open])) open = static_cast<int>(i);
        }
        if (open < 0) return false;
      }
      const int64_t take = std::min(fits[open], left);
      for (int64_t i = 0; i < take; ++i) (*placement)[rank++] = candidates[open];
      free[open].Subtract(group.each, take);
      fits[open] = free[open].Fits(group.each, kAny);
      left -= take;
    }
  }
  return true;
}

}  // namespace

absl::optional<GangPlacement> FirstFitPlacer::Place(const GangRequest& gang,
                                                    const std::vector<NodeCapacity>& nodes) const {
  std::map<std::string, std::vector<int>> by_cluster;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (Admits(nodes[i], gang)) by_cluster[nodes[i].id.cluster].push_back(static_cast<int>(i));
  }
  std::vector<int> in_order(gang.groups.size());
  std::iota(in_order.begin(), in_order.end(), 0);
  std::vector<int> largest_first = in_order;
  std::sort(largest_first.begin(), largest_first.end(), [&gang](int a, int b) {
    const Amounts& left = gang.groups[a].each;
    const Amounts& right = gang.groups[b].each;
    return std::make_tuple(-left.cpu_millis, -left.memory_bytes, a) <
           std::make_tuple(-right.cpu_millis, -right.memory_bytes, b);
  });
  for (const auto& [cluster, candidates] : by_cluster) {
    for (const std::vector<int>& order : {in_order, largest_first}) {
      GangPlacement placement;
      if (PlaceOrdered(gang, nodes, candidates, order, &placement)) return placement;
    }
  }
  return absl::nullopt;
}

}  // namespace capstan::scheduler
