#include "services/scheduler/core/bench_queues.h"

#include <cmath>
#include <cstdint>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/capstan/scheduler/v1/queue.pb.h"

namespace capstan::scheduler::bench_fleet {
namespace {

using capstan::scheduler::v1::Queue;
using capstan::scheduler::v1::ResourceQuota;
using capstan::type::v1::Resources;

constexpr int kPriorityStep = 10;
// Of the largest of SpecOf.
constexpr int64_t kNodesOfLargest = 16;

std::string IdOf(const QueueShape& shape, int level, int index) {
  return level == shape.levels ? absl::StrCat("q", index)
                               : absl::StrCat("level", level, "-", index);
}

ResourceQuota& AddLimit(const std::string& resource, int64_t amount, Queue* queue) {
  ResourceQuota& quota = *queue->add_quotas();
  quota.set_resource(resource);
  quota.mutable_borrowing_limit()->set_amount(amount);
  return quota;
}

// Rounded down, so that what Queues are guaranteed adds up to no more than the Queue above is.
void AddQuotas(int64_t nodes, int64_t leaves, int64_t below, const Resources& each, Queue* queue) {
  const int64_t guaranteed = nodes * below / (4 * leaves);
  const int64_t borrowed = 2 * nodes * below / leaves + kNodesOfLargest;
  for (const auto& [name, count] : each.accelerators()) {
    ResourceQuota& quota = AddLimit(name, borrowed * count, queue);
    // Of nothing it would say that such Jobs have no part in any guarantee.
    if (guaranteed > 0) quota.set_guarantee(guaranteed * count);
  }
  // No guarantee: of cores and memory a full fleet of GPUs uses a small part, and a Queue that has
  // less of anything than it is guaranteed gives nothing back.
  AddLimit("cpu", (guaranteed + borrowed) * each.cpu_millis(), queue);
  AddLimit("memory", (guaranteed + borrowed) * each.memory_bytes(), queue);
}

}  // namespace

std::string Suffix(const QueueShape& shape) { return shape.flat() ? ".flat" : ""; }

std::string InWords(const QueueShape& shape) {
  if (shape.flat()) {
    return absl::StrCat(shape.leaves, " queues side by side, without quotas, one priority");
  }
  const std::vector<int> levels = LevelsOf(shape);
  return absl::StrCat(shape.leaves, " queues at the bottom of a tree of ", shape.levels,
                      " levels with ", std::accumulate(levels.begin(), levels.end(), 0),
                      " queues in all, guarantees and borrowing limits at each level, Jobs of ",
                      kPriorities, " priorities");
}

int PriorityOf(int number, const QueueShape& shape) {
  return shape.flat() ? 0 : kPriorityStep * (number % kPriorities);
}

int HighestPriority(const QueueShape& shape) { return PriorityOf(kPriorities - 1, shape); }

std::vector<int> LevelsOf(const QueueShape& shape) {
  std::vector<int> levels;
  for (int level = 1; level < shape.levels; ++level) {
    // What a root is too large by is no Queue more.
    constexpr double kRounding = 1e-9;
    levels.push_back(static_cast<int>(
        std::ceil(std::pow(shape.leaves, double(level) / shape.levels) - kRounding)));
  }
  levels.push_back(shape.leaves);
  return levels;
}

void AddQueues(const QueueShape& shape, int nodes, const Resources& each, Model* model) {
  const std::vector<int> levels = LevelsOf(shape);
  std::vector<int64_t> below(levels.back(), 1);
  for (int level = shape.levels; level >= 1; --level) {
    const int64_t here = levels[level - 1];
    const int64_t above = level == 1 ? 0 : levels[level - 2];
    std::vector<int64_t> below_above(above, 0);
    for (int64_t i = 0; i < here; ++i) {
      const std::string id = IdOf(shape, level, static_cast<int>(i));
      rec::QueueRecord& record = model->queues[id];
      record.set_schema_version(1);
      Queue& queue = *record.mutable_queue();
      queue.set_name(absl::StrCat("queues/", id));
      queue.set_weight(100);
      if (!shape.flat()) AddQuotas(nodes, shape.leaves, below[i], each, &queue);
      if (above == 0) continue;
      const int64_t parent = i * above / here;
      queue.set_parent(absl::StrCat("queues/", IdOf(shape, level - 1, static_cast<int>(parent))));
      below_above[parent] += below[i];
    }
    below = std::move(below_above);
  }
}

}  // namespace capstan::scheduler::bench_fleet
