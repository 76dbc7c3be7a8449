#include "services/scheduler/core/model.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libs/session/lower_side.h"
#include "services/scheduler/core/keys.h"
#include "services/scheduler/core/optional_parts.h"
#include "services/scheduler/core/topology_levels.h"

namespace capstan::scheduler {

using capstan::scheduler::v1::JobSpec;
using capstan::scheduler::v1::TaskGroup;
using capstan::scheduler::v1::Topology;

Model Model::Copy() const {
  Model copy = CopyFleet(jobs.pool());
  copy.jobs = jobs.Copy();
  copy.requests = requests;
  copy.pin_releases = pin_releases;
  return copy;
}

Model Model::CopyFleet(std::shared_ptr<RecordPool> pool) const {
  Model copy(std::move(pool));
  copy.nodes = nodes;
  copy.clusters = clusters;
  copy.queues = queues;
  copy.queue_usage = queue_usage;
  copy.capacity_orders = capacity_orders;
  copy.maintenance_windows = maintenance_windows;
  return copy;
}

int SizeStep(const TaskGroup& group) {
  return group.slices().empty() ? 1 : std::max(group.slices(0).size(), 1);
}

Topology::Level RequiredOf(const JobSpec& spec, const TaskGroup& group) {
  Topology::Level level = group.topology().required();
  // A parent comes before its sections.
  std::string name = group.section();
  for (int s = spec.sections_size() - 1; s >= 0; --s) {
    if (name.empty() || spec.sections(s).name() != name) continue;
    level = NarrowerOf(level, spec.sections(s).topology().required());
    name = spec.sections(s).parent();
  }
  return level;
}

bool IsElastic(const JobSpec& spec) {
  return std::any_of(
             spec.task_groups().begin(), spec.task_groups().end(),
             [](const TaskGroup& group) { return MinReplicas(group) < group.replicas(); }) ||
         !OptionalParts(spec).empty();
}

int MinTaskCount(const JobSpec& spec) {
  const std::vector<int> least = MinSizes(spec);
  return std::accumulate(least.begin(), least.end(), 0);
}

int MaxTaskCount(const JobSpec& spec) {
  int count = 0;
  for (const TaskGroup& group : spec.task_groups()) count += group.replicas();
  return count;
}

int SizeOf(const JobEntry& job, int group) {
  const auto& sizes = job.gang->head.group_sizes();
  return sizes.empty() ? job.spec.spec().task_groups(group).replicas() : sizes[group];
}

int RankOf(const JobEntry& job, absl::string_view group, int index) {
  if (!job.gang.has_value()) return -1;
  int first = 0;
  for (int g = 0; g < job.spec.spec().task_groups_size(); ++g) {
    const int size = SizeOf(job, g);
    if (group == absl::string_view(job.spec.spec().task_groups(g).name())) {
      return index >= 0 && index < size ? first + index : -1;
    }
    first += size;
  }
  return -1;
}

std::pair<int, int> GroupOf(const JobEntry& job, int rank) {
  int group = 0;
  while (rank >= SizeOf(job, group)) rank -= SizeOf(job, group++);
  return {group, rank};
}

bool AsksForMig(const JobSpec& spec) {
  return std::any_of(spec.task_groups().begin(), spec.task_groups().end(),
                     [](const TaskGroup& group) { return group.resources().has_mig(); });
}

absl::optional<capstan::type::v1::MigInstance> MigInstanceOf(const JobEntry& job, int rank) {
  if (!job.gang.has_value() || job.gang->mig.empty()) return absl::nullopt;
  const TaskGroup& group = job.spec.spec().task_groups(GroupOf(job, rank).first);
  if (!group.resources().has_mig()) return absl::nullopt;
  capstan::type::v1::MigInstance instance;
  instance.set_gpu(job.gang->mig[rank].gpu());
  instance.set_model(group.resources().mig().model());
  instance.set_profile(group.resources().mig().profile());
  instance.set_start(job.gang->mig[rank].start());
  return instance;
}

std::string ProjectOf(absl::string_view name) {
  const std::vector<absl::string_view> parts = absl::StrSplit(name, '/');
  if (parts.size() < 2 || parts[0] != "projects" || parts[1].empty()) return "";
  return absl::StrCat("projects/", parts[1]);
}

store::Put PutJobSpec(const JobEntry& job) {
  return {JobSpecKey(job.uid()), session::SerializeDeterministic(job.spec)};
}

store::Put PutJobState(const JobEntry& job) {
  return {JobStateKey(job.uid()), session::SerializeDeterministic(job.state)};
}

store::Put PutGangHead(const JobEntry& job) {
  return {GangHeadKey(job.uid()), session::SerializeDeterministic(job.gang->head)};
}

std::vector<store::Put> PutPlacements(const JobEntry& job) {
  std::vector<store::Put> puts;
  const std::vector<std::string>& nodes = job.gang->nodes;
  const std::vector<rec::MigPlace>& mig = job.gang->mig;
  for (size_t first = 0; first < nodes.size(); first += kPlacementsPerChunk) {
    rec::PlacementChunkRecord chunk;
    chunk.set_schema_version(1);
    chunk.set_first_rank(static_cast<int>(first));
    std::map<std::string, uint32_t> index;
    const size_t end = std::min(nodes.size(), first + kPlacementsPerChunk);
    for (size_t rank = first; rank < end; ++rank) {
      auto [it, inserted] = index.emplace(nodes[rank], chunk.nodes_size());
      if (inserted) chunk.add_nodes(nodes[rank]);
      chunk.add_node_index(it->second);
      if (!mig.empty() && MigInstanceOf(job, static_cast<int>(rank))) *chunk.add_mig() = mig[rank];
    }
    puts.push_back({PlacementKey(job.uid(), job.gang->head.generation(),
                                 static_cast<int>(first / kPlacementsPerChunk)),
                    session::SerializeDeterministic(chunk)});
  }
  return puts;
}

int TaskChunkOf(int rank) { return rank / kTasksPerChunk; }

store::Put PutTaskChunk(const JobEntry& job, int chunk) {
  rec::TaskChunkRecord record;
  record.set_schema_version(1);
  record.set_first_rank(chunk * kTasksPerChunk);
  const int end = std::min<int>(job.gang->tasks.size(), (chunk + 1) * kTasksPerChunk);
  for (int rank = chunk * kTasksPerChunk; rank < end; ++rank) {
    *record.add_tasks() = job.gang->tasks[rank];
  }
  return {TaskKeyOf(job.uid(), job.gang->head.generation(), chunk),
          session::SerializeDeterministic(record)};
}

store::Put PutNode(const NodeId& id, const rec::NodeRecord& node) {
  return {NodeKey(id.cluster, id.node), session::SerializeDeterministic(node)};
}

store::Put PutCluster(absl::string_view id, const rec::ClusterRecord& cluster) {
  return {ClusterKey(id), session::SerializeDeterministic(cluster)};
}

store::Put PutQueue(absl::string_view id, const rec::QueueRecord& queue) {
  return {QueueKey(id), session::SerializeDeterministic(queue)};
}

store::Put PutQueueUsage(absl::string_view id, const rec::QueueUsageRecord& usage) {
  return {QueueUsageKey(id), session::SerializeDeterministic(usage)};
}

store::Put PutCapacityOrder(absl::string_view id, const rec::CapacityOrderRecord& order) {
  return {CapacityOrderKey(id), session::SerializeDeterministic(order)};
}

store::Put PutMaintenanceWindow(const std::pair<std::string, std::string>& id,
                                const rec::MaintenanceWindowRecord& window) {
  return {MaintenanceWindowKey(id.first, id.second), session::SerializeDeterministic(window)};
}

store::Put PutRequest(absl::string_view key, const rec::RequestRecord& request) {
  return {std::string(key), session::SerializeDeterministic(request)};
}

store::Put PutPinRelease(const rec::PinReleaseRecord& release) {
  return {PinReleaseKey(release.job_uid(), release.generation()),
          session::SerializeDeterministic(release)};
}

std::map<std::string, std::string> AllRecords(const Model& model) {
  std::map<std::string, std::string> records;
  auto add = [&records](store::Put put) {
    records.emplace(std::move(put.key), std::move(put.value));
  };
  for (const auto& [uid, job] : model.jobs) {
    add(PutJobSpec(job));
    add(PutJobState(job));
    if (!job.gang) continue;
    add(PutGangHead(job));
    for (store::Put& put : PutPlacements(job)) add(std::move(put));
    for (int chunk = 0; chunk * kTasksPerChunk < static_cast<int>(job.gang->tasks.size());
         ++chunk) {
      add(PutTaskChunk(job, chunk));
    }
  }
  for (const auto& [id, node] : model.nodes) add(PutNode(id, node));
  for (const auto& [id, cluster] : model.clusters) add(PutCluster(id, cluster));
  for (const auto& [id, queue] : model.queues) add(PutQueue(id, queue));
  for (const auto& [id, usage] : model.queue_usage) add(PutQueueUsage(id, usage));
  for (const auto& [id, order] : model.capacity_orders) add(PutCapacityOrder(id, order));
  for (const auto& [id, window] : model.maintenance_windows) add(PutMaintenanceWindow(id, window));
  for (const auto& [key, request] : model.requests) add(PutRequest(key, request));
  for (const auto& [id, release] : model.pin_releases) add(PutPinRelease(release));
  return records;
}

}  // namespace capstan::scheduler
