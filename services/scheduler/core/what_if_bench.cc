#include "services/scheduler/core/what_if_bench.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "libs/status/status_macros.h"
#include "libs/time/clock.h"
#include "libs/time/proto_time.h"
#include "proto/capstan/scheduler/v1/job_service.pb.h"
#include "services/scheduler/core/gang_state.h"
#include "services/scheduler/core/model.h"
#include "services/scheduler/core/validate.h"
#include "services/scheduler/core/what_if.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::JobSpec;
using capstan::scheduler::v1::Node;
using capstan::scheduler::v1::SimulatePlacementRequest;
using capstan::scheduler::v1::SimulatePlacementResponse;
using capstan::type::v1::TaskObservation;

constexpr char kCluster[] = "c";
constexpr char kGpu[] = "nvidia.com/h100";
constexpr int kQueues = 50;
constexpr int kRuns = 5;
constexpr int64_t kGib = int64_t{1} << 30;

JobSpec SpecOf(int tasks, int gpus, int queue) {
  JobSpec spec;
  spec.set_queue(absl::StrCat("queues/q", queue));
  auto& group = *spec.add_task_groups();
  group.set_name("w");
  group.set_replicas(tasks);
  group.add_argv("/bin/true");
  group.mutable_resources()->set_cpu_millis(1000 * gpus);
  group.mutable_resources()->set_memory_bytes(gpus * kGib);
  (*group.mutable_resources()->mutable_accelerators())[kGpu] = gpus;
  return spec;
}

JobSpec NextSpec(int at) { return SpecOf(1 << (at % 5), 1 << (at / 5 % 4), at % kQueues); }

JobEntry& Add(JobSpec spec, const Now& now, Model* model) {
  const int64_t sequence = static_cast<int64_t>(model->jobs.size()) + 1;
  const std::string uid = absl::StrCat("uid-", sequence);
  JobEntry& job = model->jobs[uid];
  job.spec.set_uid(uid);
  job.spec.set_name(absl::StrCat("projects/p/jobs/", uid));
  job.spec.set_submitter("person-1");
  job.spec.set_submit_sequence(sequence);
  *job.spec.mutable_create_time() = ToProto(now.wall);
  ApplyDefaults("projects/p", CoreConfig(), &spec);
  *job.spec.mutable_spec() = std::move(spec);
  return job;
}

Model FullFleet(int nodes, int queued, const Now& now) {
  Model model;
  model.clusters[kCluster].set_schema_version(1);
  for (int q = 0; q < kQueues; ++q) {
    const std::string id = absl::StrCat("q", q);
    auto& queue = *model.queues[id].mutable_queue();
    queue.set_name(absl::StrCat("queues/", id));
    queue.set_weight(100);
  }
  for (int n = 0; n < nodes; ++n) {
    const std::string id = absl::StrCat("n", n);
    rec::NodeRecord& node = model.nodes[{kCluster, id}];
    node.set_state(Node::STATE_ACTIVE);
    auto& observation = *node.mutable_observation();
    observation.set_node(id);
    observation.mutable_allocatable()->set_cpu_millis(128'000);
    observation.mutable_allocatable()->set_memory_bytes(2048 * kGib);
    (*observation.mutable_allocatable()->mutable_accelerators())[kGpu] = 8;
    (*observation.mutable_labels())["topology.kubernetes.io/zone"] = absl::StrCat("z", n / 1024);
    (*observation.mutable_labels())["capstan.dev/rack"] = absl::StrCat("r", n / 16);
    JobEntry& job = Add(SpecOf(1, 8, n % kQueues), now, &model);
    BeginGeneration(kCluster, {id}, &job);
    job.gang->head.set_phase(rec::GangHeadRecord::PHASE_STARTED);
    job.gang->tasks[0].set_state(TaskObservation::STATE_RUNNING);
    job.state.set_state(Job::STATE_RUNNING);
    *job.state.mutable_start_time() = ToProto(now.wall - absl::Hours(1));
  }
  for (int j = 0; j < queued; ++j) {
    JobEntry& job = Add(NextSpec(j), now, &model);
    job.state.set_state(Job::STATE_QUEUED);
    job.state.set_reason("INSUFFICIENT_RESOURCES");
    *job.state.mutable_update_time() = ToProto(now.wall);
  }
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
  add.set_like(NodeId{kCluster, "n0"}.Name());
  const std::string suffix = absl::StrCat(".nodes", nodes, ".queued", queued);
  const std::string conditions =
      absl::StrCat(nodes, " full nodes of 8 GPUs, ", queued, " Jobs of 1 to 128 GPUs wait");
  std::vector<double> copying;
  const auto measure = [&](const SimulatePlacementRequest& request, const char* name,
                           const char* what) -> absl::StatusOr<Figure> {
    std::vector<double> times;
    for (int run = 0; run < kRuns; ++run) {
      const absl::Duration begin = stopwatch();
      SimulatedState state = StateForSimulation(model, request);
      const absl::Duration copied = stopwatch();
      CAPSTAN_ASSIGN_OR_RETURN(
          const SimulatePlacementResponse response,
          SimulatePlacement(config, std::move(state), request, "person-1", now));
      times.push_back(absl::ToDoubleMilliseconds(stopwatch() - copied));
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
  return std::vector<Figure>{of_jobs, of_nodes,
                             Summarise("scheduler.what_if_copy_ms" + suffix, copying, "ms", "lower",
                                       0, "on the strand; " + conditions)};
}

}  // namespace capstan::scheduler
