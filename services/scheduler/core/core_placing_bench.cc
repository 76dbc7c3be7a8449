#include "services/scheduler/core/core_placing_bench.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/random/random.h"
#include "libs/status/status_macros.h"
#include "libs/time/clock.h"
#include "libs/time/proto_time.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "proto/capstan/scheduler/v1/queue.pb.h"
#include "proto/capstan/type/v1/task.pb.h"
#include "services/scheduler/core/bench_core.h"
#include "services/scheduler/core/bench_fleet.h"
#include "services/scheduler/core/core_config.h"
#include "services/scheduler/core/events.h"
#include "services/scheduler/core/gang_state.h"
#include "services/scheduler/core/model.h"

namespace capstan::scheduler {
namespace {

using bench_fleet::kCluster;
using bench_fleet::kQueues;
using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::JobSpec;
using capstan::type::v1::NodeObservation;
using capstan::type::v1::TaskObservation;

constexpr int kGpusOfNode = 8;
constexpr char kGuaranteed[] = "guaranteed";
constexpr char kConditions[] =
    "whole rounds of the core, 50 queues, order, reasons and reservation on; records and messages "
    "made, not stored";

class PlacingBench {
 public:
  PlacingBench(const Stopwatch* stopwatch, int nodes, uint64_t seed)
      : nodes_(nodes),
        random_(seed),
        core_(stopwatch, [this](const Event&, const Step&, absl::Duration took, bool round) {
          if (round) in_rounds_ += took;
        }) {
    bench_fleet::AddFull(/*nodes=*/0, core_.now().wall, &model_);
  }

  Random& random() { return random_; }

  // Gangs of 1 to 64 GPUs, of one GPU a Task, on Nodes one after the other until all are full.
  void Fill() {
    const absl::Time started = core_.now().wall - absl::Hours(1);
    const int64_t all = int64_t{nodes_} * kGpusOfNode;
    for (int64_t used = 0; used < all;) {
      const int64_t size = std::min<int64_t>(int64_t{1} << random_.Below(7), all - used);
      JobEntry& job = bench_fleet::AddQueued(
          bench_fleet::Gang(static_cast<int>(size), 1, static_cast<int>(random_.Below(kQueues))),
          started, &model_);
      std::vector<std::string> nodes;
      for (int64_t rank = 0; rank < size; ++rank) {
        nodes.push_back(bench_fleet::NodeName(static_cast<int>((used + rank) / kGpusOfNode)));
      }
      BeginGeneration(kCluster, std::move(nodes), {static_cast<int>(size)}, &job);
      job.gang->head.set_phase(rec::GangHeadRecord::PHASE_STARTED);
      for (auto& task : job.gang->tasks) task.set_state(TaskObservation::STATE_RUNNING);
      job.state.set_state(Job::STATE_RUNNING);
      *job.state.mutable_start_time() = ToProto(started);
      used += size;
    }
    rec::QueueRecord& record = model_.queues[kGuaranteed];
    record.set_schema_version(1);
    record.mutable_queue()->set_name(absl::StrCat("queues/", kGuaranteed));
    record.mutable_queue()->set_weight(100);
    const NodeObservation node = bench_fleet::NodeReport(0);
    Guarantee("cpu", node.allocatable().cpu_millis(), &record);
    Guarantee("memory", node.allocatable().memory_bytes(), &record);
    for (const auto& [name, count] : node.allocatable().accelerators()) {
      Guarantee(name, count, &record);
    }
  }

  absl::Status Start() {
    CAPSTAN_RETURN_IF_ERROR(core_.Start(CoreConfig(), BenchCore::RecordsOf(model_), nodes_));
    Rest();
    in_rounds_ = absl::ZeroDuration();
    return absl::OkStatus();
  }

  void Submit(JobSpec spec) { core_.Submit(std::move(spec)); }

  // Ticks until the core wants none for a second.
  void Rest() {
    const BootTime begun = core_.now().boot;
    while (true) {
      const BootTime now = core_.now().boot;
      const BootTime at = core_.core().NextDeadline().value_or(BootTime::InfiniteFuture());
      if (at > now + absl::Seconds(1) || now > begun + absl::Seconds(10)) break;
      if (at > now) core_.MoveTo(at);
      core_.Apply(Tick());
    }
  }

  const Model& model() const { return core_.model(); }
  // Of the steps that had a round in them, since Start.
  absl::Duration in_rounds() const { return in_rounds_; }

  // By Node, what all Tasks that are placed take of its GPUs; in a view of its own.
  absl::StatusOr<std::map<std::string, int64_t>> GpusInUse() const {
    std::map<std::string, int64_t> used;
    for (const auto& [uid, job] : model().jobs) {
      if (!job.live()) continue;
      const auto& group = job.spec.spec().task_groups(0);
      if (static_cast<int>(job.gang->nodes.size()) != group.replicas()) {
        return absl::FailedPreconditionError(absl::StrCat(uid, " is placed in part"));
      }
      for (const auto& [name, count] : group.resources().accelerators()) {
        for (const std::string& node : job.gang->nodes) used[node] += count;
      }
    }
    for (const auto& [node, count] : used) {
      if (count > kGpusOfNode) {
        return absl::FailedPreconditionError(absl::StrCat(node, " has given ", count, " GPUs"));
      }
    }
    return used;
  }

 private:
  void Guarantee(const std::string& resource, int64_t of_a_node, rec::QueueRecord* record) {
    auto& quota = *record->mutable_queue()->add_quotas();
    quota.set_resource(resource);
    quota.set_guarantee(of_a_node * nodes_ / 4);
  }

  const int nodes_;
  Random random_;
  Model model_;
  absl::Duration in_rounds_;
  BenchCore core_;
};

int64_t PlacedTasks(const Model& model) {
  int64_t placed = 0;
  for (const auto& [uid, job] : model.jobs) {
    if (job.live()) placed += static_cast<int64_t>(job.gang->nodes.size());
  }
  return placed;
}

absl::Status CheckPlaced(const PlacingBench& bench, int64_t expected) {
  CAPSTAN_RETURN_IF_ERROR(bench.GpusInUse().status());
  const int64_t placed = PlacedTasks(bench.model());
  if (placed == expected) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(placed, " Tasks are placed instead of ", expected));
}

// Whether they are enough, and none can be left out: the Job takes whole Nodes.
absl::Status CheckVictims(const PlacingBench& bench, const std::string& uid, int needed) {
  const JobEntry& job = *bench.model().FindJob(uid);
  if (job.state.reason() != "MAKING_ROOM") {
    return absl::FailedPreconditionError(absl::StrCat("no room is made: ", job.state.reason()));
  }
  std::map<std::string, std::set<std::string>> by_node;  // uids of who ends there
  std::map<std::string, int64_t> staying;
  for (const auto& [other, entry] : bench.model().jobs) {
    if (!entry.live()) continue;
    const bool ends = entry.state.state() == Job::STATE_STOPPING;
    for (const std::string& node : entry.gang->nodes) {
      if (ends) by_node[node].insert(other);
      staying[node] += ends ? 0 : 1;
    }
  }
  int free = 0;
  std::map<std::string, int> frees;  // by victim, Nodes that it alone would keep
  for (const auto& [node, count] : staying) {
    if (count > 0) continue;
    ++free;
    for (const std::string& victim : by_node[node]) ++frees[victim];
  }
  if (free < needed) {
    return absl::FailedPreconditionError(absl::StrCat(free, " Nodes come free of ", needed));
  }
  for (const auto& record : job.state.making_room()) {
    if (free - frees[record.job_uid()] >= needed) {
      return absl::FailedPreconditionError(absl::StrCat(record.job_uid(), " ends for nothing"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Figure> BenchCorePlacements(const Stopwatch& stopwatch, int nodes, int classes,
                                           int tasks_each, int runs) {
  const int tasks = nodes * kGpusOfNode;
  std::vector<double> values;
  for (int run = 0; run < runs; ++run) {
    PlacingBench bench(&stopwatch, nodes, run);
    CAPSTAN_RETURN_IF_ERROR(bench.Start());
    for (int i = 0; i < tasks / tasks_each; ++i) {
      JobSpec spec = bench_fleet::Gang(tasks_each, 1, i % kQueues);
      spec.mutable_task_groups(0)->mutable_resources()->set_cpu_millis(1000 + i % classes);
      bench.Submit(std::move(spec));
    }
    bench.Rest();
    CAPSTAN_RETURN_IF_ERROR(CheckPlaced(bench, tasks));
    values.push_back(tasks / absl::ToDoubleSeconds(bench.in_rounds()));
  }
  return Summarise(absl::StrCat("scheduler.core_placements_per_s.nodes", nodes, ".classes", classes,
                                tasks_each == 1 ? "" : absl::StrCat(".tasks", tasks_each)),
                   values, "1/s", "higher", 0,
                   absl::StrCat(tasks / tasks_each, " Jobs of ", tasks_each,
                                " Tasks of one GPU on ", nodes, " idle nodes of 8; ", kConditions));
}

absl::StatusOr<Figure> BenchCoreGangs(const Stopwatch& stopwatch, int nodes, int runs) {
  constexpr int kGangs = 10;
  std::vector<double> values;
  for (int run = 0; run < runs; ++run) {
    PlacingBench bench(&stopwatch, nodes, run);
    CAPSTAN_RETURN_IF_ERROR(bench.Start());
    for (int i = 0; i < kGangs; ++i) {
      JobSpec spec = bench_fleet::Gang(nodes, 1, i);
      spec.mutable_task_groups(0)->mutable_resources()->clear_accelerators();
      bench.Submit(std::move(spec));
    }
    bench.Rest();
    CAPSTAN_RETURN_IF_ERROR(CheckPlaced(bench, int64_t{kGangs} * nodes));
    values.push_back(absl::ToDoubleSeconds(bench.in_rounds()));
  }
  return Summarise(absl::StrCat("scheduler.core_gangs_10x", nodes, "_s"), values, "s", "lower", 0.5,
                   absl::StrCat("10 Jobs of ", nodes, " Tasks of one core on ", nodes,
                                " idle nodes; ", kConditions));
}

absl::StatusOr<Figure> BenchCoreReclaim(const Stopwatch& stopwatch, int nodes, int runs) {
  const int needed = nodes / 4;
  std::vector<double> values;
  for (int run = 0; run < runs; ++run) {
    PlacingBench bench(&stopwatch, nodes, run);
    bench.Fill();
    CAPSTAN_RETURN_IF_ERROR(bench.Start());
    JobSpec spec = bench_fleet::Gang(needed, kGpusOfNode, 0);
    spec.set_queue(absl::StrCat("queues/", kGuaranteed));
    bench.Submit(std::move(spec));
    const std::string uid = absl::StrCat("uid-", bench.model().jobs.size());
    bench.Rest();
    CAPSTAN_RETURN_IF_ERROR(bench.GpusInUse().status());
    CAPSTAN_RETURN_IF_ERROR(CheckVictims(bench, uid, needed));
    values.push_back(absl::ToDoubleMilliseconds(bench.in_rounds()));
  }
  return Summarise(
      absl::StrCat("scheduler.core_reclaim_ms.nodes", nodes), values, "ms", "lower",
      nodes <= 500    ? 25
      : nodes <= 1000 ? 50
                      : 500,
      absl::StrCat("a Job of ", needed, " whole nodes of 8 GPUs that its queue is ", "guaranteed, ",
                   nodes, " nodes full of Jobs of 1 to 64 GPUs; ", kConditions));
}

}  // namespace capstan::scheduler
