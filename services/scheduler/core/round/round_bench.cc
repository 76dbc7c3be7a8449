#include "services/scheduler/core/round/round_bench.h"

#include <malloc.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/random/random.h"
#include "libs/status/status_macros.h"
#include "services/scheduler/core/round/accept.h"
#include "services/scheduler/core/round/fleet_fixture.h"
#include "services/scheduler/core/round/round.h"
#include "services/scheduler/core/round/round_oracle.h"

namespace capstan::scheduler::round {
namespace {

constexpr int kRuns = 5;
constexpr int64_t kGib = int64_t{1} << 30;
constexpr int kQueuesPerTeam = 10;
constexpr int kTeams = 10;

absl::Time StartOfTime() { return absl::UnixEpoch() + absl::Hours(500000); }

// Nodes of 128 cores, 2 TiB and 8 GPUs in racks of 16 and zones of 64 racks.
class Bench {
 public:
  explicit Bench(int nodes, uint64_t seed) : random(seed) {
    for (int n = 0; n < nodes; ++n) {
      NodeTraits traits =
          fixture.Traits("c", absl::StrCat("r", n / 16), absl::StrCat("n", n), 128'000, 8);
      traits.path[static_cast<int>(Level::kZone)] = absl::StrCat("z", n / 1024);
      traits.allocatable[kMemoryBytes] = 2048 * kGib;
      traits.labels = {{"kubernetes.io/hostname", absl::StrCat("n", n)}, {"gpu", "h100"}};
      fleet().AddNode(traits);
    }
    // A tree of three levels with a limit at each that is checked and does not bind.
    const QueueId root = budgets.AddQueue({});
    budgets.SetLeft(root, kCpuMillis, int64_t{1} << 50);
    for (int t = 0; t < kTeams; ++t) {
      const QueueId team = budgets.AddQueue(root);
      budgets.SetLeft(team, fixture.gpu(), int64_t{1} << 40);
      for (int q = 0; q < kQueuesPerTeam; ++q) {
        queues.push_back(budgets.AddQueue(team));
        budgets.SetLeft(queues.back(), fixture.gpu(), int64_t{1} << 40);
      }
    }
  }

  Fleet& fleet() { return fixture.fleet(); }

  ClassId Class(int64_t cpu_millis, int64_t memory, int64_t gpus) {
    return fleet().InternClass(
        {}, {{kCpuMillis, cpu_millis}, {kMemoryBytes, memory}, {fixture.gpu(), gpus}});
  }

  GangIndex Add(ShapeId shape, absl::Duration declared = absl::InfiniteDuration()) {
    return fixture.AddGang(shape, 0, queues[random.Below(queues.size())], declared);
  }

  // One round, timed from the fleet to the fleet.
  absl::Duration Run(Round& round, const Stopwatch& stopwatch,
                     const std::vector<GangIndex>& order) {
    RoundInput input;
    input.order = order;
    input.budgets = budgets;
    input.now = now;
    const absl::Duration begin = stopwatch();
    snapshot = fleet().Freeze();
    input.snapshot = snapshot;
    proposal = round.Run(std::move(input));
    accepted = Accept(fleet(), proposal, now);
    return stopwatch() - begin;
  }

  Random random;
  FleetFixture fixture;
  Budgets budgets;
  std::vector<QueueId> queues;
  absl::Time now = StartOfTime();
  // Of the last round.
  std::shared_ptr<const Snapshot> snapshot;
  Proposal proposal;
  Accepted accepted;
};

absl::Status CheckStarted(const Bench& bench, const std::vector<GangIndex>& order, size_t started) {
  CAPSTAN_RETURN_IF_ERROR(
      CheckRound(*bench.snapshot, order, bench.proposal, RoundChecks{true, false}));
  if (bench.accepted.started.size() != started || !bench.accepted.conflicts.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(bench.accepted.started.size(), " gangs started instead of ", started));
  }
  return absl::OkStatus();
}

// A gang that the full fleet makes room for: every fourth node's worth, whole nodes.
ShapeId ReclaimShape(Bench& bench, int nodes) {
  return bench.fixture.Flat(bench.Class(64'000, 512 * kGib, 8), nodes / 4, nodes / 4,
                            Level::kCluster);
}

// Fills every node with gangs of 1 to 64 GPUs of borrowing queues, at random.
absl::Status FillFleet(Bench& bench, int nodes, QueueId borrower) {
  const ClassId gpu = bench.Class(8'000, 64 * kGib, 1);
  int64_t node = 0;
  int64_t used = 0;
  while (node < nodes) {
    const int64_t size =
        std::min<int64_t>(int64_t{1} << bench.random.Below(7), (nodes - node) * 8 - used);
    std::vector<TaskRun> runs;
    for (int64_t left = size; left > 0;) {
      const int64_t take = std::min(left, 8 - used);
      runs.push_back({static_cast<NodeIndex>(node), 0, static_cast<int32_t>(take)});
      left -= take;
      used += take;
      if (used == 8) {
        used = 0;
        ++node;
      }
    }
    const auto count = static_cast<int>(size);
    const GangIndex gang =
        bench.fixture.AddGang(bench.fixture.Flat(gpu, count, count), 0, borrower);
    CAPSTAN_RETURN_IF_ERROR(bench.fleet().Start(gang, std::move(runs), bench.now));
    bench.fleet().SetCheckpointed(gang, bench.now + absl::Seconds(bench.random.Between(0, 3000)));
  }
  return absl::OkStatus();
}

// What would run with 100 nodes more and 10 gangs more at the end of the queue.
absl::Duration WhatIf(Bench& bench, Round& round, const std::vector<ShapeId>& shapes,
                      const std::vector<GangIndex>& order, const Stopwatch& stopwatch) {
  RoundInput input;
  input.budgets = bench.budgets;
  input.now = bench.now;
  std::vector<GangIndex> all = order;
  const absl::Duration begin = stopwatch();
  const std::unique_ptr<Fleet> fork = bench.fleet().Fork();
  for (int n = 0; n < 100; ++n) {
    NodeTraits traits = *fork->node(0).traits;
    traits.path[static_cast<int>(Level::kHost)] = absl::StrCat("more", n);
    fork->AddNode(std::move(traits));
  }
  for (int g = 0; g < 10; ++g) {
    Gang gang;
    gang.shape = shapes[bench.random.Below(shapes.size())];
    all.push_back(fork->AddGang(gang));
  }
  input.snapshot = fork->Freeze();
  input.order = all;
  const Proposal proposal = round.Run(std::move(input));
  return stopwatch() - begin;
}

}  // namespace

absl::StatusOr<Figure> BenchPlacements(const Stopwatch& stopwatch, int nodes, int classes) {
  constexpr int kPods = 50000;
  std::vector<double> rates;
  for (int run = 0; run < kRuns; ++run) {
    Bench bench(nodes, static_cast<uint64_t>(run) + 1);
    std::vector<ShapeId> shapes;
    for (int c = 0; c < classes; ++c) {
      const int64_t gpus = c % 10 == 9 ? 1 : 0;
      const ClassId id = bench.Class(1000 + c, (1 + c % 16) * kGib, gpus);
      shapes.push_back(bench.fixture.Flat(id, 1, 1));
    }
    std::vector<GangIndex> order;
    for (int p = 0; p < kPods; ++p) {
      order.push_back(bench.Add(shapes[bench.random.Below(shapes.size())]));
    }
    Round round{RoundOptions()};
    const absl::Duration took = bench.Run(round, stopwatch, order);
    CAPSTAN_RETURN_IF_ERROR(CheckStarted(bench, order, kPods));
    rates.push_back(kPods / absl::ToDoubleSeconds(took));
  }
  return Summarise(absl::StrCat("scheduler.placements_per_s.nodes", nodes, ".classes", classes),
                   std::move(rates), "1/s", "higher", classes == 1000 ? 50'000 : 200'000,
                   "50,000 gangs of one task, classes at random, one in ten with a GPU; "
                   "nodes of 128 cores, 2 TiB, 8 GPUs; 111 queues in 3 levels, order given; "
                   "without persistence");
}

absl::StatusOr<Figure> BenchLargeGangs(const Stopwatch& stopwatch) {
  std::vector<double> times;
  for (int run = 0; run < kRuns; ++run) {
    Bench bench(5000, static_cast<uint64_t>(run) + 1);
    const ShapeId shape = bench.fixture.Flat(bench.Class(8'000, 16 * kGib, 0), 5000, 5000);
    std::vector<GangIndex> order;
    for (int g = 0; g < 10; ++g) order.push_back(bench.Add(shape));
    Round round{RoundOptions()};
    const absl::Duration took = bench.Run(round, stopwatch, order);
    CAPSTAN_RETURN_IF_ERROR(CheckStarted(bench, order, 10));
    times.push_back(absl::ToDoubleSeconds(took));
  }
  return Summarise("scheduler.gangs_10x5000_s", std::move(times), "s", "lower", 0.5,
                   "10 gangs of 5,000 tasks of 8 cores on 5,000 nodes of 128; without persistence");
}

absl::StatusOr<Figure> BenchSlicedGangs(const Stopwatch& stopwatch) {
  std::vector<double> times;
  for (int run = 0; run < kRuns; ++run) {
    Bench bench(5000, static_cast<uint64_t>(run) + 1);
    GangShape shape;
    GangShape::Group& leaf = shape.groups.emplace_back();
    leaf.task_class = bench.Class(8'000, 16 * kGib, 0);
    leaf.min = leaf.max = 5000;
    leaf.slices = {{Level::kRack, 40}, {Level::kHost, 8}};
    CAPSTAN_ASSIGN_OR_RETURN(const ShapeId id, bench.fleet().InternShape(std::move(shape)));
    std::vector<GangIndex> order;
    for (int g = 0; g < 10; ++g) order.push_back(bench.Add(id));
    Round round{RoundOptions()};
    const absl::Duration took = bench.Run(round, stopwatch, order);
    CAPSTAN_RETURN_IF_ERROR(CheckStarted(bench, order, 10));
    times.push_back(absl::ToDoubleSeconds(took));
  }
  return Summarise("scheduler.gangs_10x5000_s.slices", std::move(times), "s", "lower", 0.5,
                   "the same in slices of 40 in a rack and of 8 on a node");
}

absl::StatusOr<Figure> BenchReclaim(const Stopwatch& stopwatch, int nodes, double limit) {
  std::vector<double> times;
  for (int run = 0; run < kRuns; ++run) {
    Bench bench(nodes, static_cast<uint64_t>(run) + 1);
    const QueueId mine = bench.queues[0];
    const QueueId borrower = bench.queues[1];
    bench.budgets.SetMayReclaim(mine, true);
    bench.budgets.SetAboveGuarantee(borrower, true);
    CAPSTAN_RETURN_IF_ERROR(FillFleet(bench, nodes, borrower));
    bench.now += absl::Hours(1);
    const std::vector<GangIndex> order = {
        bench.fixture.AddGang(ReclaimShape(bench, nodes), 0, mine)};
    Round round{RoundOptions()};
    const absl::Duration took = bench.Run(round, stopwatch, order);
    // Its minimality is checked whole up to 1,000 nodes: the oracle's work grows with the square.
    CAPSTAN_RETURN_IF_ERROR(
        CheckRound(*bench.snapshot, order, bench.proposal, RoundChecks{nodes <= 1000, false}));
    if (bench.accepted.nominated.size() != 1) {
      return absl::FailedPreconditionError("no room was made");
    }
    times.push_back(absl::ToDoubleMilliseconds(took));
  }
  return Summarise(absl::StrCat("scheduler.reclaim_ms.nodes", nodes), std::move(times), "ms",
                   "lower", limit,
                   "full fleet of gangs of 1 to 64 GPUs; one gang of a quarter of all nodes, whole "
                   "nodes, by guarantee; without persistence");
}

absl::StatusOr<std::vector<Figure>> BenchQueue(const Stopwatch& stopwatch, int nodes, int queued) {
  constexpr int kRounds = 100;
  constexpr int kArrivals = 500;
  Bench bench(nodes, 1);
  std::vector<ShapeId> shapes;
  for (int s = 0; s < 50; ++s) {
    const ClassId id = bench.Class(1000 + 500 * (s % 10), (1 + s % 7) * kGib, 1 + s % 4);
    const int size = 1 << (s % 5);
    shapes.push_back(bench.fixture.Flat(id, size, size));
  }
  const auto add = [&bench, &shapes] {
    return bench.Add(shapes[bench.random.Below(shapes.size())],
                     absl::Minutes(bench.random.Between(1, 600)));
  };
  const size_t before = mallinfo2().uordblks;
  std::vector<GangIndex> order;
  for (int g = 0; g < queued; ++g) order.push_back(add());
  const double bytes = static_cast<double>(mallinfo2().uordblks - before) / queued;
  Round round{RoundOptions()};
  std::vector<GangIndex> running;
  std::vector<double> times;
  std::vector<double> explains;
  std::vector<double> what_ifs;
  Workspace explaining;
  Round simulating{RoundOptions()};
  for (int r = 0; r < kRounds; ++r) {
    const absl::Duration took = bench.Run(round, stopwatch, order);
    if (!bench.accepted.conflicts.empty()) {
      return absl::FailedPreconditionError("a conflict where nothing changed");
    }
    if (r < 2 || r == kRounds - 1) {
      CAPSTAN_RETURN_IF_ERROR(
          CheckRound(*bench.snapshot, order, bench.proposal, RoundChecks{false, false}));
    }
    // The first fills the fleet.
    if (r > 0) times.push_back(absl::ToDoubleMilliseconds(took));
    for (GangIndex gang : bench.accepted.started) running.push_back(gang);
    order.erase(std::remove_if(order.begin(), order.end(),
                               [&bench](GangIndex gang) {
                                 return bench.fleet().gang(gang).state != GangState::kPending;
                               }),
                order.end());
    for (int a = 0; a < kArrivals && !running.empty(); ++a) {
      const size_t leaver = bench.random.Below(running.size());
      bench.fleet().RemoveGang(running[leaver]);
      running[leaver] = running.back();
      running.pop_back();
    }
    while (order.size() < static_cast<size_t>(queued)) order.push_back(add());
    bench.now += absl::Seconds(1);
    const absl::Duration begin = stopwatch();
    const auto snapshot = bench.fleet().Freeze();
    explaining.Load(snapshot);
    const Reason reason =
        WhyNot(explaining, *snapshot->shapes[snapshot->gangs[order.back()].shape], Plane::kNow);
    if (reason.nodes.empty() && reason.nodes_with_room == 0) {
      return absl::FailedPreconditionError("an explanation without nodes");
    }
    explains.push_back(absl::ToDoubleMilliseconds(stopwatch() - begin));
    if (r % 10 == 9) {
      what_ifs.push_back(
          absl::ToDoubleMilliseconds(WhatIf(bench, simulating, shapes, order, stopwatch)));
    }
  }
  const std::string conditions = absl::StrCat(
      nodes, " full nodes, ", queued, " gangs of 1 to 64 GPUs queued in 50 shapes, ", kArrivals,
      " arrive and leave between rounds; 111 queues, order given; warm; without persistence");
  std::sort(times.begin(), times.end());
  const std::string suffix = queued == 1'000'000 ? "queued1m" : absl::StrCat("queued", queued);
  Figure p99 =
      Summarise("scheduler.engine_round_p99_ms." + suffix, times, "ms", "lower", 1000, conditions);
  p99.value = times[times.size() * 99 / 100];
  return std::vector<Figure>{
      p99,
      Summarise("scheduler.engine_round_p50_ms." + suffix, times, "ms", "lower", 0, conditions),
      Summarise("scheduler.engine_explain_ms." + suffix, explains, "ms", "lower", 50, conditions),
      Summarise("scheduler.engine_what_if_ms." + suffix, what_ifs, "ms", "lower", 50,
                "100 nodes and 10 gangs more, the whole queue before them; " + conditions),
      Summarise("scheduler.engine_bytes_per_job." + suffix, {bytes}, "bytes", "lower", 1024,
                "the engine's own, with its place in the order; of a gang that waits")};
}

}  // namespace capstan::scheduler::round
