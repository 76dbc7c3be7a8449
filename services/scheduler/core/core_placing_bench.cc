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
#include "services/scheduler/core/bench_queues.h"
#include "services/scheduler/core/core_config.h"
#include "services/scheduler/core/events.h"
#include "services/scheduler/core/gang_state.h"
#include "services/scheduler/core/model.h"

namespace capstan::scheduler {
namespace {

using bench_fleet::kCluster;
using bench_fleet::kPriorities;
using bench_fleet::PriorityOf;
using bench_fleet::QueueShape;
using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::JobSpec;
using capstan::type::v1::NodeObservation;
using capstan::type::v1::TaskObservation;

constexpr int kGpusOfNode = 8;
constexpr char kGuaranteed[] = "guaranteed";

std::string Conditions(const QueueShape& queues) {
  return absl::StrCat("whole rounds of the core, ", InWords(queues),
                      ", order, reasons and reservation on; records and messages made, not stored");
}

class PlacingBench {
 public:
  PlacingBench(const Stopwatch* stopwatch, int nodes, uint64_t seed, const QueueShape& queues)
      : nodes_(nodes),
        queues_(queues),
        random_(seed),
        core_(stopwatch, [this](const Event&, const Step&, absl::Duration took, bool round) {
          if (round) in_rounds_ += took;
        }) {
    bench_fleet::AddQueues(queues_, nodes_, &model_);
  }

  Random& random() { return random_; }

  // Gangs of 1 to 64 GPUs, of one GPU a Task, on Nodes one after the other until all are full.
  void Fill() {
    const absl::Time started = core_.now().wall - absl::Hours(1);
    const int64_t all = int64_t{nodes_} * kGpusOfNode;
    for (int64_t used = 0; used < all;) {
      const int64_t size = std::min<int64_t>(int64_t{1} << random_.Below(7), all - used);
      const int queue = static_cast<int>(model_.jobs.size()) % queues_.leaves;
      JobSpec spec = bench_fleet::Gang(static_cast<int>(size), 1, queue);
      spec.set_priority(PriorityOf(static_cast<int>(random_.Below(kPriorities)), queues_));
      JobEntry& job = bench_fleet::AddQueued(std::move(spec), started, &model_);
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

  // By the rules of bench_checks.h.
  absl::Status Check() const { return core_.Check(); }

 private:
  void Guarantee(const std::string& resource, int64_t of_a_node, rec::QueueRecord* record) {
    auto& quota = *record->mutable_queue()->add_quotas();
    quota.set_resource(resource);
    quota.set_guarantee(of_a_node * nodes_ / 4);
  }

  const int nodes_;
  const QueueShape queues_;
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
  CAPSTAN_RETURN_IF_ERROR(bench.Check());
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
                                           int tasks_each, int runs, const QueueShape& queues) {
  const int tasks = nodes * kGpusOfNode;
  std::vector<double> values;
  for (int run = 0; run < runs; ++run) {
    PlacingBench bench(&stopwatch, nodes, run, queues);
    CAPSTAN_RETURN_IF_ERROR(bench.Start());
    for (int i = 0; i < tasks / tasks_each; ++i) {
      JobSpec spec = bench_fleet::Gang(tasks_each, 1, i % queues.leaves);
      spec.set_priority(PriorityOf(i / queues.leaves, queues));
      spec.mutable_task_groups(0)->mutable_resources()->set_cpu_millis(1000 + i % classes);
      bench.Submit(std::move(spec));
    }
    bench.Rest();
    CAPSTAN_RETURN_IF_ERROR(CheckPlaced(bench, tasks));
    values.push_back(tasks / absl::ToDoubleSeconds(bench.in_rounds()));
  }
  return Summarise(
      absl::StrCat("scheduler.core_placements_per_s.nodes", nodes, ".classes", classes,
                   tasks_each == 1 ? "" : absl::StrCat(".tasks", tasks_each), Suffix(queues)),
      values, "1/s", "higher",
      tasks_each > 1 ? 0
      : classes > 20 ? 50'000
                     : 200'000,
      absl::StrCat(tasks / tasks_each, " Jobs of ", tasks_each, " Tasks of one GPU on ", nodes,
                   " idle nodes of 8; ", Conditions(queues)));
}

absl::StatusOr<Figure> BenchCoreGangs(const Stopwatch& stopwatch, int nodes, int runs,
                                      const QueueShape& queues) {
  constexpr int kGangs = 10;
  std::vector<double> values;
  for (int run = 0; run < runs; ++run) {
    PlacingBench bench(&stopwatch, nodes, run, queues);
    CAPSTAN_RETURN_IF_ERROR(bench.Start());
    for (int i = 0; i < kGangs; ++i) {
      JobSpec spec = bench_fleet::Gang(nodes, 1, i);
      spec.set_priority(PriorityOf(i, queues));
      spec.mutable_task_groups(0)->mutable_resources()->clear_accelerators();
      bench.Submit(std::move(spec));
    }
    bench.Rest();
    CAPSTAN_RETURN_IF_ERROR(CheckPlaced(bench, int64_t{kGangs} * nodes));
    values.push_back(absl::ToDoubleSeconds(bench.in_rounds()));
  }
  return Summarise(absl::StrCat("scheduler.core_gangs_10x", nodes, "_s", Suffix(queues)), values,
                   "s", "lower", 0.5,
                   absl::StrCat("10 Jobs of ", nodes, " Tasks of one core on ", nodes,
                                " idle nodes; ", Conditions(queues)));
}

absl::StatusOr<Figure> BenchCoreReclaim(const Stopwatch& stopwatch, int nodes, int runs,
                                        const QueueShape& queues) {
  const int needed = nodes / 4;
  std::vector<double> values;
  for (int run = 0; run < runs; ++run) {
    PlacingBench bench(&stopwatch, nodes, run, queues);
    bench.Fill();
    CAPSTAN_RETURN_IF_ERROR(bench.Start());
    JobSpec spec = bench_fleet::Gang(needed, kGpusOfNode, 0);
    spec.set_queue(absl::StrCat("queues/", kGuaranteed));
    bench.Submit(std::move(spec));
    const std::string uid = absl::StrCat("uid-", bench.model().jobs.size());
    bench.Rest();
    CAPSTAN_RETURN_IF_ERROR(bench.Check());
    CAPSTAN_RETURN_IF_ERROR(CheckVictims(bench, uid, needed));
    values.push_back(absl::ToDoubleMilliseconds(bench.in_rounds()));
  }
  return Summarise(
      absl::StrCat("scheduler.core_reclaim_ms.nodes", nodes, Suffix(queues)), values, "ms", "lower",
      nodes <= 500    ? 25
      : nodes <= 1000 ? 50
                      : 500,
      absl::StrCat("a Job of ", needed, " whole nodes of 8 GPUs that its queue is guaranteed, ",
                   nodes, " nodes full of Jobs of 1 to 64 GPUs; ", Conditions(queues)));
}

}  // namespace capstan::scheduler
