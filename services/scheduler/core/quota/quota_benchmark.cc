// The quota tree at 5,000 queues in six levels: fair shares, the order of gangs with 1,000,000
// waiting, and admission.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "benchmark/benchmark.h"
#include "libs/random/random.h"
#include "services/scheduler/core/quota/admission.h"
#include "services/scheduler/core/quota/fair_shares.h"
#include "services/scheduler/core/quota/gang_queues.h"
#include "services/scheduler/core/quota/queue_order.h"
#include "services/scheduler/core/quota/random_tree.h"
#include "services/scheduler/core/quota/request_classes.h"

namespace capstan::scheduler {
namespace {

constexpr int kResources = 3;

// Six levels, of which the lowest has most of the queues: each has four below it, the first five
// none above.
std::vector<QueueSpec> Queues(int count, Random& random) {
  std::vector<QueueSpec> specs(count);
  for (int i = 0; i < count; ++i) {
    specs[i].id = absl::StrCat("q", i);
    if (i >= 5) specs[i].parent = absl::StrCat("q", (i - 5) / 4);
    specs[i].weight = random.Between(1, 1000);
    if (i < count / 4) continue;
    for (int r = 0; r < kResources; ++r) {
      Quota& quota = specs[i].quotas[absl::StrCat("r", r)];
      if (random.OneIn(2)) quota.guarantee = Limit::Of(random.Between(0, 100));
      if (random.OneIn(8)) quota.borrowing = Limit::Of(random.Between(0, 1000));
      if (random.OneIn(8)) quota.lending = Limit::Of(random.Between(0, 50));
    }
  }
  return specs;
}

struct Fleet {
  explicit Fleet(int queues)
      : random(42),
        tree(Queues(queues, random), RandomResourceNames(kResources)),
        leaves(Leaves(tree)),
        usage(tree),
        gangs(tree) {
    // 7,500 nodes.
    capacity[0] = 7'500 * 64'000, capacity[1] = int64_t{7'500} << 40, capacity[2] = 7'500 * 8;
  }

  // A gang of 1 to 64 accelerators with what goes with them.
  Resources Request() {
    Resources request;
    request[2] = int64_t{1} << random.Below(7);
    request[0] = request[2] * 8'000;
    request[1] = request[2] << (33 + random.Below(5));
    return request;
  }

  Random random;
  QueueTree tree;
  std::vector<int> leaves;
  TreeUsage usage;
  GangQueues gangs;
  RequestClasses requests;
  std::vector<UsageHistory> histories;
  Resources capacity;
};

void FairSharesFromScratch(benchmark::State& state) {
  Fleet fleet(static_cast<int>(state.range(0)));
  std::vector<Resources> demand(fleet.tree.size());
  for (int leaf : fleet.leaves) {
    for (int i = 0; i < 20; ++i) demand[leaf] += fleet.Request();
  }
  for (auto _ : state) {
    benchmark::DoNotOptimize(ComputeFairShares(fleet.tree, fleet.capacity, demand));
  }
}
BENCHMARK(FairSharesFromScratch)
    ->ArgName("queues")
    ->Arg(500)
    ->Arg(1000)
    ->Arg(2500)
    ->Arg(5000)
    ->Unit(benchmark::kMillisecond);

// Queues with everything that waits in them are dear to make and only read.
Fleet& Waiting(int gangs) {
  static Fleet* fleet = nullptr;
  static int waiting = -1;
  if (waiting != gangs) {
    delete fleet;
    fleet = new Fleet(5000);
    for (int i = 0; i < gangs; ++i) {
      QueuedGang gang;
      gang.kind.priority = static_cast<int32_t>(fleet->random.Below(10));
      gang.kind.request = fleet->requests.Acquire(fleet->Request());
      gang.submit_order = i;
      fleet->gangs.Insert(fleet->leaves[fleet->random.Below(fleet->leaves.size())], gang);
    }
    waiting = gangs;
  }
  return *fleet;
}

void NextGang(benchmark::State& state) {
  const Fleet& fleet = Waiting(static_cast<int>(state.range(0)));
  std::unique_ptr<QueueOrder> order;
  for (auto _ : state) {
    if (order == nullptr || !order->has_next()) {
      state.PauseTiming();
      order = std::make_unique<QueueOrder>(QueueOrder::Inputs{
          fleet.usage, fleet.gangs, fleet.requests, fleet.capacity, fleet.histories, 0});
      state.ResumeTiming();
    }
    benchmark::DoNotOptimize(order->next_gang().submit_order);
    order->Start();
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(NextGang)->ArgName("queued")->Arg(10'000)->Arg(100'000)->Arg(1'000'000);

// What each round pays before its first gang.
void StartOrder(benchmark::State& state) {
  const Fleet& fleet = Waiting(static_cast<int>(state.range(0)));
  for (auto _ : state) {
    const QueueOrder order(
        {fleet.usage, fleet.gangs, fleet.requests, fleet.capacity, fleet.histories, 0});
    benchmark::DoNotOptimize(order.next_leaf());
  }
}
BENCHMARK(StartOrder)->ArgName("queued")->Arg(1'000'000)->Unit(benchmark::kMicrosecond);

void Admission(benchmark::State& state) {
  Fleet fleet(5000);
  std::vector<std::pair<int, Resources>> gangs;
  for (int i = 0; i < 4096; ++i) {
    gangs.emplace_back(fleet.leaves[fleet.random.Below(fleet.leaves.size())], fleet.Request());
  }
  size_t next = 0;
  for (auto _ : state) {
    const auto& [leaf, request] = gangs[next++ % gangs.size()];
    benchmark::DoNotOptimize(CheckStart(fleet.usage, fleet.capacity, leaf, request));
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(Admission);

}  // namespace
}  // namespace capstan::scheduler

BENCHMARK_MAIN();
