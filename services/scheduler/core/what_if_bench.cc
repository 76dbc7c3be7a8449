#include "services/scheduler/core/what_if_bench.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "libs/status/status_macros.h"
#include "libs/time/clock.h"
#include "libs/time/proto_time.h"
#include "proto/capstan/scheduler/v1/job_service.pb.h"
#include "services/scheduler/core/bench_fleet.h"
#include "services/scheduler/core/bench_queues.h"
#include "services/scheduler/core/model.h"
#include "services/scheduler/core/shared_state.h"
#include "services/scheduler/core/simulated_state.h"
#include "services/scheduler/core/what_if.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::JobSpec;
using capstan::scheduler::v1::Node;
using capstan::scheduler::v1::SimulatePlacementRequest;
using capstan::scheduler::v1::SimulatePlacementResponse;

constexpr int kRuns = 5;

// A shape after the other, each in another queue and of another priority.
JobSpec NextSpec(int at) {
  JobSpec spec = bench_fleet::SpecOf(at % bench_fleet::kShapes, at % bench_fleet::kQueues);
  spec.set_priority(bench_fleet::PriorityOf(at));
  return spec;
}

Model FullFleet(int nodes, int queued, const Now& now) {
  Model model;
  model.clusters[bench_fleet::kCluster].set_schema_version(1);
  bench_fleet::AddFull(nodes, now.wall - absl::Hours(1), &model);
  for (int n = 0; n < nodes; ++n) {
    const auto report = bench_fleet::NodeReport(n);
    rec::NodeRecord& node = model.nodes[{bench_fleet::kCluster, report.node()}];
    node.set_state(Node::STATE_ACTIVE);
    *node.mutable_observation() = report;
  }
  for (int j = 0; j < queued; ++j) {
    JobEntry& job = bench_fleet::AddQueued(NextSpec(j), now.wall, &model);
    job.state.set_reason("INSUFFICIENT_RESOURCES");
    *job.state.mutable_update_time() = ToProto(now.wall);
  }
  model.jobs.Rest();
  return model;
}

}  // namespace

absl::StatusOr<std::vector<Figure>> BenchSimulation(const Stopwatch& stopwatch, int nodes,
                                                    int queued) {
  const Now now{absl::FromUnixSeconds(1'700'000'000), BootTime() + absl::Hours(1)};
  const CoreConfig config;
  const Model model = FullFleet(nodes, queued, now);
  SimulatePlacementRequest jobs;
  jobs.set_parent("projects/p");
  for (int i = 0; i < kMaxSimulatedJobs; ++i) *jobs.add_jobs() = NextSpec(i);
  jobs = WithDefaults(config, std::move(jobs));
  SimulatePlacementRequest more;
  more.set_parent("projects/p");
  auto& add = *more.add_node_changes()->mutable_add();
  add.set_count(kMaxSimulatedNodes);
  add.set_like(NodeId{bench_fleet::kCluster, bench_fleet::NodeReport(0).node()}.Name());
  const std::string suffix = absl::StrCat(".nodes", nodes, ".queued", queued);
  const std::string conditions =
      absl::StrCat(nodes, " full nodes of 8 GPUs, ", queued, " Jobs of 1 to 128 GPUs wait, ",
                   bench_fleet::InWords({}));
  std::vector<double> copying;
  std::vector<double> preparing;
  const auto measure = [&](const SimulatePlacementRequest& request, const char* name,
                           const char* what) -> absl::StatusOr<Figure> {
    std::vector<double> times;
    for (int run = 0; run < kRuns; ++run) {
      const absl::Duration begin = stopwatch();
      SimulatedState state = StateForSimulation(model, request);
      const absl::Duration copied = stopwatch();
      Simulation simulation(config, std::move(state), now);
      const absl::Duration prepared = stopwatch();
      CAPSTAN_ASSIGN_OR_RETURN(const SimulatePlacementResponse response,
                               simulation.Run(request, "person-1"));
      times.push_back(absl::ToDoubleMilliseconds(stopwatch() - prepared));
      preparing.push_back(absl::ToDoubleMilliseconds(prepared - copied));
      copying.push_back(absl::ToDoubleMilliseconds(copied - begin));
      if (response.cut_short() ||
          (request.node_changes_size() > 0 && queued > 0) != (response.others().started() > 0)) {
        return absl::FailedPreconditionError(response.DebugString());
      }
    }
    return Summarise(absl::StrCat("scheduler.", name, suffix), times, "ms", "lower", 0,
                     absl::StrCat(what, "; ", conditions));
  };
  CAPSTAN_ASSIGN_OR_RETURN(Figure of_jobs, measure(jobs, "what_if_jobs_ms", "10 Jobs"));
  CAPSTAN_ASSIGN_OR_RETURN(Figure of_nodes, measure(more, "what_if_nodes_ms", "100 Nodes more"));
  // As one of many that rest on one copy, from that to its end: the core is taken apart too.
  const SharedState shared(StateForSimulation(model, more), model, {more});
  std::vector<double> alternatives;
  for (int run = 0; run < kRuns; ++run) {
    const absl::Duration begin = stopwatch();
    CAPSTAN_RETURN_IF_ERROR(
        Simulation(config, shared.For(more), now).Run(more, "person-1").status());
    alternatives.push_back(absl::ToDoubleMilliseconds(stopwatch() - begin));
  }
  return std::vector<Figure>{
      of_jobs, of_nodes,
      Summarise("scheduler.what_if_alternative_ms" + suffix, alternatives, "ms", "lower", 0,
                "one of a batch, 100 Nodes more; " + conditions),
      Summarise("scheduler.what_if_prepare_ms" + suffix, preparing, "ms", "lower", 0,
                "before it is asked, beside the strand; " + conditions),
      Summarise("scheduler.what_if_copy_ms" + suffix, copying, "ms", "lower", 0,
                "before that, on the strand; " + conditions)};
}

}  // namespace capstan::scheduler
