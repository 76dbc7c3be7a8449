#include "services/scheduler/core/gang_state.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/time/proto_time.h"
#include "libs/trace/context.h"
#include "services/scheduler/core/job_spans.h"
#include "services/scheduler/core/optional_parts.h"

namespace capstan::scheduler {
namespace {

using capstan::type::v1::DesiredTask;
using capstan::type::v1::Rendezvous;
using capstan::type::v1::Stop;
using capstan::type::v1::TaskEnd;
using capstan::type::v1::TaskKey;
using capstan::type::v1::TaskLaunch;
using capstan::type::v1::TaskObservation;
using rec::GangHeadRecord;

constexpr size_t kMaxProgressBytes = 128;
constexpr size_t kMaxEndMessageBytes = 256;

// Cuts at a UTF-8 border.
std::string Bounded(const std::string& text, size_t limit) {
  if (text.size() <= limit) return text;
  size_t end = limit;
  while (end > 0 && (text[end] & 0xC0) == 0x80) --end;
  return text.substr(0, end);
}

int32_t PortOf(const rec::TaskRecord& task, const char* name) {
  auto it = task.ports().find(name);
  return it == task.ports().end() ? 0 : it->second;
}

std::string HostPort(const std::string& host, int32_t port) {
  if (absl::string_view(host).find(':') != absl::string_view::npos) {
    return absl::StrCat("[", host, "]:", port);
  }
  return absl::StrCat(host, ":", port);
}

void RecordFailure(int rank, Gang* gang) {
  if (gang->head.has_failure() || gang->head.phase() == GangHeadRecord::PHASE_STOPPING) return;
  gang->head.mutable_failure()->set_rank(rank);
  *gang->head.mutable_failure()->mutable_end() = gang->tasks[rank].end();
}

// It is to start again once its generation has ended, by itself: neither is it cancelled nor held.
bool StartsAgain(const JobEntry& job) {
  return job.live() && !job.state.cancel_requested() && !job.state.hold();
}

void FillLaunch(const JobEntry& job, int group, bool is_master, TaskLaunch* launch) {
  const capstan::scheduler::v1::JobSpec& spec = job.spec.spec();
  const capstan::scheduler::v1::TaskGroup& task_group = spec.task_groups(group);
  *launch->mutable_argv() = task_group.argv();
  *launch->mutable_env() = task_group.env();
  *launch->mutable_resources() = task_group.resources();
  *launch->mutable_fence_after() = spec.fence_after();
  *launch->mutable_stop_grace() = spec.stop_grace();
  launch->set_bundle(spec.bundle());
  *launch->mutable_datasets() = spec.datasets();
  for (int i = 0; i < spec.datasets_size() && i < job.state.datasets_size(); ++i) {
    if (!job.state.datasets(i).version().empty()) {
      launch->mutable_datasets(i)->set_version(job.state.datasets(i).version());
    }
  }
  if (spec.output()) launch->set_output(absl::StrCat(job.spec.name(), "/output"));
  launch->set_job(job.spec.name());
  if (job.spec.has_element()) *launch->mutable_element() = job.spec.element();
  launch->set_service_account(spec.service_account());
  launch->add_ports(kPeerPort);
  if (is_master) launch->add_ports(kMasterPort);
  if (const auto trace = GenerationTrace(job); trace.has_value()) {
    launch->set_traceparent(trace::ToTraceparent(*trace));
  }
}

void FillRendezvous(const Gang& gang, int rank, const RendezvousTable& table,
                    Rendezvous* rendezvous) {
  const rec::TaskRecord& master = gang.tasks[0];
  rendezvous->set_master_addr(master.host());
  rendezvous->set_master_port(PortOf(master, kMasterPort));
  rendezvous->set_rank(rank);
  rendezvous->set_world_size(static_cast<int>(gang.tasks.size()));
  rendezvous->set_local_rank(table.local_rank[rank]);
  rendezvous->set_local_world_size(table.local_size.at(gang.nodes[rank]));
  if (static_cast<int>(table.peers.size()) > kMaxPeers) return;
  rendezvous->mutable_peers()->Assign(table.peers.begin(), table.peers.end());
}

}  // namespace

bool Succeeded(const TaskEnd& end) {
  return end.cause() == TaskEnd::CAUSE_EXITED && end.exit_code() == 0;
}

bool Succeeded(const Gang& gang) {
  return std::all_of(gang.tasks.begin(), gang.tasks.end(), [](const rec::TaskRecord& task) {
    return task.state() == TaskObservation::STATE_ENDED && Succeeded(task.end());
  });
}

bool IsMakingWay(const Gang& gang) {
  return gang.head.phase() == GangHeadRecord::PHASE_STOPPING &&
         gang.head.stop_reason() == Stop::REASON_PREEMPTED && !gang.head.has_move();
}

bool IsShrinking(const JobEntry& job) {
  return StartsAgain(job) && job.gang->head.phase() == GangHeadRecord::PHASE_STOPPING &&
         job.gang->head.stop_reason() == Stop::REASON_SHRUNK;
}

bool IsGrowing(const JobEntry& job) {
  return StartsAgain(job) && job.gang->head.phase() == GangHeadRecord::PHASE_STOPPING &&
         job.gang->head.stop_reason() == Stop::REASON_GROWN;
}

bool IsMoving(const JobEntry& job) {
  return StartsAgain(job) && job.gang->head.phase() == GangHeadRecord::PHASE_STOPPING &&
         job.gang->head.has_move();
}

bool IsMoved(const JobEntry& job) { return IsReturning(job) && job.gang->head.has_move(); }

bool IsReturning(const JobEntry& job) {
  return job.gang.has_value() && !job.live() &&
         job.state.state() == capstan::scheduler::v1::Job::STATE_QUEUED &&
         job.state.reason() == kReturning;
}

bool IsSpare(const JobEntry& job, int rank) {
  const auto [group, index] = GroupOf(job, rank);
  const auto& spec = job.spec.spec();
  return index >= MinReplicas(spec.task_groups(group)) || IsOptional(spec, group);
}

std::string SizeInWords(const JobEntry& job) {
  const capstan::scheduler::v1::JobSpec& spec = job.spec.spec();
  if (!IsElastic(spec)) return "";
  return absl::StrCat(" with ", job.gang->tasks.size(), " of ", MinTaskCount(spec), "..",
                      MaxTaskCount(spec), " Tasks");
}

GangMove NextMove(const Gang& gang) {
  if (!gang.live()) return GangMove::kNone;
  bool all_ended = true;
  bool all_prepared = true;
  bool all_succeeded = true;
  bool any_ended = false;
  bool any_failed = false;
  for (const rec::TaskRecord& task : gang.tasks) {
    const bool ended = task.state() == TaskObservation::STATE_ENDED;
    const bool succeeded = ended && Succeeded(task.end());
    all_ended = all_ended && ended;
    any_ended = any_ended || ended;
    all_succeeded = all_succeeded && succeeded;
    any_failed = any_failed || (ended && !succeeded);
    all_prepared = all_prepared && (task.state() == TaskObservation::STATE_PREPARED ||
                                    task.state() == TaskObservation::STATE_RUNNING);
  }
  switch (gang.head.phase()) {
    case GangHeadRecord::PHASE_PREPARING:
      if (all_ended) return GangMove::kEnd;
      if (any_ended) return GangMove::kStop;
      return all_prepared ? GangMove::kStart : GangMove::kNone;
    case GangHeadRecord::PHASE_STARTED:
      if (all_succeeded) return GangMove::kSucceed;
      if (all_ended) return GangMove::kEnd;
      return any_failed ? GangMove::kStop : GangMove::kNone;
    case GangHeadRecord::PHASE_STOPPING:
      return all_ended ? GangMove::kEnd : GangMove::kNone;
    default:
      return GangMove::kNone;
  }
}

void BeginGeneration(absl::string_view cluster, std::vector<std::string> nodes,
                     const std::vector<int>& sizes, JobEntry* job) {
  Gang gang;
  job->state.set_generation(std::max(job->state.generation(), job->state.generation_floor()) + 1);
  gang.head.set_schema_version(1);
  gang.head.set_generation(job->state.generation());
  gang.head.set_phase(GangHeadRecord::PHASE_PREPARING);
  gang.head.set_cluster(std::string(cluster));
  gang.head.set_task_count(static_cast<int>(nodes.size()));
  if (IsElastic(job->spec.spec())) {
    gang.head.mutable_group_sizes()->Assign(sizes.begin(), sizes.end());
  }
  gang.tasks.resize(nodes.size());
  gang.nodes = std::move(nodes);
  job->gang = std::move(gang);
}

bool ApplyObservation(const TaskObservation& observation, int rank, Gang* gang) {
  rec::TaskRecord& task = gang->tasks[rank];
  if (task.state() == TaskObservation::STATE_ENDED) return false;
  if (observation.state() == TaskObservation::STATE_UNSPECIFIED ||
      observation.state() < task.state()) {
    return false;
  }
  bool changed = false;
  if (observation.state() > task.state()) {
    task.set_state(observation.state());
    changed = true;
  }
  // Peers may have been told of ports and host: the first word stays.
  if (task.host().empty() && !observation.host().empty() &&
      observation.state() >= TaskObservation::STATE_PREPARED) {
    task.set_host(observation.host());
    *task.mutable_ports() = observation.ports();
    changed = true;
  }
  if (observation.pid() != 0 && observation.pid() != task.pid()) {
    task.set_pid(observation.pid());
    changed = true;
  }
  const std::string progress = observation.state() == TaskObservation::STATE_PREPARING
                                   ? Bounded(observation.progress(), kMaxProgressBytes)
                                   : std::string();
  if (progress != task.progress()) {
    task.set_progress(progress);
    changed = true;
  }
  if (observation.state() == TaskObservation::STATE_ENDED) {
    *task.mutable_end() = observation.end();
    task.mutable_end()->set_message(Bounded(observation.end().message(), kMaxEndMessageBytes));
    if (task.end().cause() == TaskEnd::CAUSE_UNSPECIFIED) {
      task.mutable_end()->set_cause(TaskEnd::CAUSE_LOST);
    }
    if (!Succeeded(task.end()) || gang->head.phase() == GangHeadRecord::PHASE_PREPARING) {
      RecordFailure(rank, gang);
    }
  }
  return changed;
}

void EndTask(TaskEnd::Cause cause, absl::string_view message, int rank, Gang* gang) {
  rec::TaskRecord& task = gang->tasks[rank];
  if (task.state() == TaskObservation::STATE_ENDED) return;
  task.set_state(TaskObservation::STATE_ENDED);
  task.clear_progress();
  task.mutable_end()->set_cause(cause);
  task.mutable_end()->set_message(Bounded(std::string(message), kMaxEndMessageBytes));
  RecordFailure(rank, gang);
}

RendezvousTable TableOf(const Gang& gang) {
  RendezvousTable table;
  for (const std::string& node : gang.nodes) table.local_rank.push_back(table.local_size[node]++);
  if (gang.head.phase() == GangHeadRecord::PHASE_PREPARING) return table;
  for (const rec::TaskRecord& task : gang.tasks) {
    table.peers.push_back(HostPort(task.host(), PortOf(task, kPeerPort)));
  }
  return table;
}

TaskKey KeyOf(const JobEntry& job, int rank) {
  const auto [group, index] = GroupOf(job, rank);
  TaskKey key;
  key.set_job_uid(job.uid());
  key.set_generation(job.gang->head.generation());
  key.set_group(job.spec.spec().task_groups(group).name());
  key.set_index(index);
  return key;
}

DesiredTask DesiredOf(const JobEntry& job, int rank, const RendezvousTable& table) {
  const Gang& gang = *job.gang;
  DesiredTask desired;
  *desired.mutable_key() = KeyOf(job, rank);
  desired.set_node(gang.nodes[rank]);
  FillLaunch(job, GroupOf(job, rank).first, /*is_master=*/rank == 0, desired.mutable_launch());
  if (const auto instance = MigInstanceOf(job, rank); instance.has_value()) {
    *desired.mutable_launch()->mutable_mig_instance() = *instance;
  }
  switch (gang.head.phase()) {
    case GangHeadRecord::PHASE_PREPARING:
      desired.set_phase(DesiredTask::PHASE_PREPARE);
      break;
    case GangHeadRecord::PHASE_STARTED:
      desired.set_phase(DesiredTask::PHASE_START);
      FillRendezvous(gang, rank, table, desired.mutable_rendezvous());
      break;
    default:
      desired.set_phase(DesiredTask::PHASE_STOP);
      desired.mutable_stop()->set_reason(gang.head.stop_reason());
      *desired.mutable_stop()->mutable_grace() = job.spec.spec().stop_grace();
      break;
  }
  return desired;
}

DesiredTask StopStray(const TaskKey& key, absl::string_view node, const JobEntry* job) {
  DesiredTask desired;
  *desired.mutable_key() = key;
  desired.set_node(std::string(node));
  desired.set_phase(DesiredTask::PHASE_STOP);
  desired.mutable_stop()->set_reason(Stop::REASON_GANG_FAILED);
  *desired.mutable_stop()->mutable_grace() = ToProto(absl::ZeroDuration());
  if (job == nullptr) return desired;
  // Its generation may have had more Tasks than the one that is known.
  const auto& groups = job->spec.spec().task_groups();
  for (int group = 0; group < groups.size(); ++group) {
    if (groups[group].name() != key.group()) continue;
    if (key.index() < 0 || key.index() >= groups[group].replicas()) break;
    FillLaunch(*job, group, /*is_master=*/group == 0 && key.index() == 0, desired.mutable_launch());
    *desired.mutable_stop()->mutable_grace() = job->spec.spec().stop_grace();
  }
  return desired;
}

}  // namespace capstan::scheduler
