// The data of Jobs, which is there before they stand in their Queues.
#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "libs/time/proto_time.h"
#include "services/scheduler/core/keys.h"
#include "services/scheduler/core/node_terms.h"
#include "services/scheduler/core/placer.h"
#include "services/scheduler/core/scheduler_core.h"

namespace capstan::scheduler {

using capstan::scheduler::v1::Job;

namespace {

bool NeedsData(const JobEntry& job) {
  return std::any_of(job.state.datasets().begin(), job.state.datasets().end(),
                     [](const rec::DatasetState& dataset) { return !dataset.ready(); });
}

}  // namespace

void SchedulerCore::Begin(JobEntry* job) { NeedsData(*job) ? AskForData(job) : Enqueue(job); }

void SchedulerCore::AskForData(JobEntry* job) {
  SetState(job, Job::STATE_QUEUED, "AWAITING_DATA", "waits for its data");
  if (job->state.data_cluster().empty()) ChooseDataCluster(job);
  if (job->state.data_cluster().empty()) return;
  for (int i = 0; i < job->state.datasets_size(); ++i) {
    const rec::DatasetState& dataset = job->state.datasets(i);
    if (dataset.ready()) continue;
    const auto& mount = job->spec.spec().datasets(i);
    effects_.push_back(EnsureData{job->uid(), i, mount.dataset(),
                                  dataset.version().empty() ? mount.version() : dataset.version(),
                                  job->state.data_cluster()});
  }
}

void SchedulerCore::ChooseDataCluster(JobEntry* job) {
  std::string chosen;
  for (const std::string& cluster : job->spec.spec().clusters()) {
    if (model_.clusters.count(cluster) > 0) {
      chosen = cluster;
      break;
    }
  }
  if (job->spec.spec().clusters().empty() && !model_.clusters.empty()) {
    // One that could hold the gang if it were empty; else the first.
    chosen = model_.clusters.begin()->first;
    std::vector<NodeCapacity> nodes;
    for (const auto& [id, node] : model_.nodes) {
      NodeCapacity& capacity = nodes.emplace_back();
      capacity.id = id;
      capacity.free = AllocatableOf(node.observation());
      capacity.eligible = true;
      capacity.reported = &node.observation();
    }
    std::set<std::string> label_keys;
    AddLabelKeys(job->spec.spec(), &label_keys);
    const absl::optional<GangPlacement> fits =
        placer_->Begin(nodes, {}, &label_keys)->Place(GangRequest::From(*job));
    if (fits) chosen = nodes[fits->nodes.front()].id.cluster;
  }
  if (chosen.empty()) return;
  job->state.set_data_cluster(chosen);
  Touch(*job);
}

void SchedulerCore::ClustersChanged() {
  std::vector<std::string> waiting;
  model_.jobs.ForEachGlance([&waiting](const JobGlance& job) {
    if (job.state != Job::STATE_QUEUED || job.reason != "AWAITING_DATA") return;
    waiting.emplace_back(job.uid);
  });
  for (const std::string& uid : waiting) {
    JobEntry* const job = FindJob(uid);
    if (job->state.data_cluster().empty()) AskForData(job);
  }
}

void SchedulerCore::On(const DataProgressed& event) {
  JobEntry* job = FindJob(event.job_uid);
  if (job == nullptr || job->state.reason() != "AWAITING_DATA" || event.dataset < 0 ||
      event.dataset >= job->state.datasets_size()) {
    return;
  }
  rec::DatasetState& dataset = *job->state.mutable_datasets(event.dataset);
  if (dataset.ready()) return;
  dataset.set_data_load(event.data_load);
  dataset.set_loaded_bytes(event.loaded_bytes);
  dataset.set_total_bytes(event.total_bytes);
  dataset.set_bytes_per_second(event.bytes_per_second);
  dataset.clear_eta();
  if (event.eta != absl::InfiniteDuration()) *dataset.mutable_eta() = ToProto(event.eta);
  Touch(*job);
}

void SchedulerCore::On(const DataReady& event) {
  JobEntry* job = FindJob(event.job_uid);
  if (job == nullptr || job->state.reason() != "AWAITING_DATA" || event.dataset < 0 ||
      event.dataset >= job->state.datasets_size()) {
    return;
  }
  rec::DatasetState& dataset = *job->state.mutable_datasets(event.dataset);
  if (dataset.ready()) return;
  const auto& mount = job->spec.spec().datasets(event.dataset);
  const std::string& wanted = dataset.version().empty() ? mount.version() : dataset.version();
  if (!wanted.empty() && event.version != wanted) {
    // Its Tasks would not read what they asked for, or what those of earlier generations have read.
    return Finish(job, Job::STATE_FAILED, "DATA_LOAD_FAILED",
                  absl::StrCat(mount.dataset(), ": version '", wanted,
                               "' has left the Site, and its source has '", event.version,
                               "' now; submit the Job again to use that"));
  }
  dataset.set_ready(true);
  dataset.set_version(event.version);
  dataset.set_loaded_bytes(std::max(dataset.loaded_bytes(), dataset.total_bytes()));
  dataset.clear_eta();
  dataset.clear_bytes_per_second();
  Touch(*job);
  if (!NeedsData(*job)) Enqueue(job);
}

void SchedulerCore::On(const DataFailed& event) {
  JobEntry* job = FindJob(event.job_uid);
  if (job == nullptr || job->state.reason() != "AWAITING_DATA") return;
  Finish(job, Job::STATE_FAILED, event.reason, event.message);
}

void SchedulerCore::On(const PinsReleased& event) {
  if (model_.pin_releases.erase({event.job_uid, event.generation}) == 0) return;
  Write write;
  write.deletes.push_back({PinReleaseKey(event.job_uid, event.generation), ""});
  other_writes_.push_back(std::move(write));
}

}  // namespace capstan::scheduler
