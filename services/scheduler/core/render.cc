#include "services/scheduler/core/render.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "libs/mig/layouts.h"
#include "libs/mig/profiles.h"
#include "libs/mig/state_table.h"
#include "libs/resource/etag.h"
#include "libs/session/lower_side.h"
#include "libs/time/proto_time.h"
#include "services/scheduler/core/arrays.h"
#include "services/scheduler/core/mig_amounts.h"
#include "services/scheduler/core/quota/resources.h"
#include "services/scheduler/core/quota/usage_history.h"

namespace capstan::scheduler {

using capstan::scheduler::v1::DataProgress;
using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::Node;
using capstan::scheduler::v1::Queue;
using capstan::scheduler::v1::TaskStatus;

namespace {

// Of a UsageHistory's fraction.
constexpr double kFractionUnit = 4294967296.0;

}  // namespace

std::string EtagOf(int64_t version) { return absl::StrCat("\"", version, "\""); }

std::string EtagOf(Queue queue) {
  queue.clear_etag();
  return resource::MakeEtag(session::SerializeDeterministic(queue));
}

Queue RenderQueue(const rec::QueueRecord& record, const rec::QueueUsageRecord* usage,
                  absl::Time now) {
  Queue queue = record.queue();
  if (usage == nullptr) return queue;
  UsageHistory history;
  history.as_of = ToTime(usage->as_of());
  Resources used;
  const int count = std::min(usage->amounts_size(), kMaxResources);
  for (int i = 0; i < count; ++i) {
    history.average[i] = std::clamp<int64_t>(usage->amounts(i).average(), 0, kMaxAmount);
    history.fraction[i] = usage->amounts(i).fraction();
    used[i] = std::clamp<int64_t>(usage->amounts(i).used(), 0, kMaxAmount);
  }
  Advance(history, used, ToDuration(usage->half_life()), now);
  for (int i = 0; i < count; ++i) {
    const double average = static_cast<double>(history.average[i]) +
                           static_cast<double>(history.fraction[i]) / kFractionUnit;
    // Less than a thousandth is the rest of what nobody remembers.
    if (average < 0.001 && used[i] == 0) continue;
    capstan::scheduler::v1::QueueUsage& shown = *queue.add_usage();
    shown.set_resource(usage->amounts(i).resource());
    shown.set_average(average);
    shown.set_in_use(used[i]);
  }
  return queue;
}

Job RenderJob(const JobEntry& entry) {
  Job job;
  const rec::JobStateRecord& state = entry.state;
  job.set_name(entry.spec.name());
  job.set_uid(entry.uid());
  job.set_etag(EtagOf(state.version()));
  *job.mutable_spec() = entry.spec.spec();
  job.set_state(state.state());
  job.set_reason(state.reason());
  job.set_message(state.message());
  job.set_generation(state.generation());
  job.set_counted_restarts(state.counted_restarts());
  job.set_submitter(entry.spec.submitter());
  *job.mutable_create_time() = entry.spec.create_time();
  if (state.has_start_time()) *job.mutable_start_time() = state.start_time();
  if (state.has_end_time()) *job.mutable_end_time() = state.end_time();
  *job.mutable_update_time() = state.update_time();
  if (state.has_retry_time()) *job.mutable_retry_time() = state.retry_time();
  if (state.has_estimated_start_time()) {
    *job.mutable_estimated_start_time() = state.estimated_start_time();
    job.set_estimate_assumed(state.estimate_assumed());
  }
  job.set_hold(state.hold());
  job.set_preemptions(state.preemptions());
  for (const v1::Disruption& disruption : state.disruptions()) {
    v1::Disruption& shown = *job.add_disruptions();
    shown = disruption;
    const std::string project = ProjectOf(disruption.beneficiary());
    // Of other Projects' Jobs nobody is told.
    if (!project.empty() && project != ProjectOf(entry.spec.name())) {
      shown.clear_beneficiary();
      shown.clear_need();
    }
  }
  if (IsElement(entry)) *job.mutable_element() = entry.spec.element();
  if (IsArray(entry)) *job.mutable_array() = ProgressOf(entry);
  if (state.state() == Job::STATE_QUEUED && state.reason() == "AWAITING_DATA") {
    DataProgress& progress = *job.mutable_data_progress();
    absl::Duration eta = absl::ZeroDuration();
    bool known = true;
    for (const rec::DatasetState& dataset : state.datasets()) {
      progress.set_loaded_bytes(progress.loaded_bytes() + dataset.loaded_bytes());
      progress.set_total_bytes(progress.total_bytes() + dataset.total_bytes());
      if (!dataset.data_load().empty()) progress.add_data_loads(dataset.data_load());
      if (dataset.ready()) continue;
      progress.set_bytes_per_second(progress.bytes_per_second() + dataset.bytes_per_second());
      known = known && dataset.has_eta();
      eta = std::max(eta, ToDuration(dataset.eta()));
    }
    if (known) *progress.mutable_eta() = ToProto(eta);
  }
  if (!entry.gang) return job;
  const Gang& gang = *entry.gang;
  int rank = 0;
  for (int g = 0; g < entry.spec.spec().task_groups_size(); ++g) {
    const int size = SizeOf(entry, g);
    for (int index = 0; index < size; ++index, ++rank) {
      const rec::TaskRecord& task = gang.tasks[rank];
      TaskStatus& status = *job.add_tasks();
      status.set_group(entry.spec.spec().task_groups(g).name());
      status.set_index(index);
      status.set_rank(rank);
      status.set_node(gang.node(rank).Name());
      status.set_state(task.state());
      if (task.has_end()) *status.mutable_end() = task.end();
      status.set_progress(task.progress());
      status.set_pid(task.pid());
    }
  }
  return job;
}

namespace {

void ShowMigGpus(const MigAmounts& allocatable, const MigAmounts& allocated, Node* node) {
  const std::vector<MigSpot> held = allocated.Instances();
  for (const MigGpuState& gpu : allocatable.Gpus()) {
    const mig::DeviceModel& model = mig::DeviceModels()[gpu.model];
    v1::NodeMigGpu& shown = *node->add_mig_gpus();
    shown.mutable_gpu()->set_index(gpu.gpu);
    shown.mutable_gpu()->set_model(model.name);
    std::vector<mig::Position> positions;
    for (const MigSpot& spot : held) {
      if (spot.gpu != gpu.gpu || spot.model != gpu.model) continue;
      positions.push_back(mig::Layouts::Of(gpu.model).table().positions()[spot.position]);
    }
    std::sort(positions.begin(), positions.end(),
              [](const mig::Position& a, const mig::Position& b) { return a.start < b.start; });
    for (const mig::Position& position : positions) {
      capstan::type::v1::MigInstance& instance = *shown.add_instances();
      instance.set_gpu(gpu.gpu);
      instance.set_model(model.name);
      instance.set_profile(model.profiles[position.profile].name);
      instance.set_start(position.start);
    }
  }
}

}  // namespace

Node RenderNode(const NodeId& id, const rec::NodeRecord& record, const NodeUsage::Entry& usage,
                const std::vector<const v1::MaintenanceWindow*>& windows) {
  Node node;
  node.set_name(id.Name());
  node.set_state(record.state());
  const Amounts allocatable = AllocatableOf(record.observation());
  *node.mutable_allocatable() = allocatable.ToResources();
  *node.mutable_allocated() = usage.allocated.ToResources();
  *node.mutable_cordons() = record.cordons();
  *node.mutable_labels() = record.observation().labels();
  *node.mutable_limitations() = record.observation().limitations();
  node.set_etag(EtagOf(record.version()));
  *node.mutable_observe_time() = record.observe_time();
  node.set_task_count(usage.task_count);
  node.set_host(record.observation().host());
  node.set_preflight_message(record.observation().preflight_message());
  node.set_disk_free_bytes(record.observation().disk_free_bytes());
  node.set_disk_total_bytes(record.observation().disk_total_bytes());
  *node.mutable_taints() = record.observation().taints();
  std::sort(node.mutable_taints()->begin(), node.mutable_taints()->end(),
            [](const auto& a, const auto& b) { return a.key() < b.key(); });
  ShowMigGpus(allocatable.mig, usage.allocated.mig, &node);
  for (const v1::MaintenanceWindow* window : windows) {
    v1::Maintenance& maintenance = *node.add_maintenance();
    maintenance.set_maintenance_window(window->name());
    *maintenance.mutable_start_time() = window->start_time();
    *maintenance.mutable_end_time() = window->end_time();
  }
  return node;
}

}  // namespace capstan::scheduler
