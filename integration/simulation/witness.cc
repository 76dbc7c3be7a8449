#include "integration/simulation/witness.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "services/scheduler/core/keys.h"
#include "services/scheduler/core/model.h"
#include "services/scheduler/core/records.pb.h"

namespace capstan::simulation {

using ::capstan::scheduler::records::v1::GangHeadRecord;
using ::capstan::scheduler::records::v1::JobSpecRecord;
using ::capstan::scheduler::v1::Topology;
using session::TaskId;

void Witness::Started(const TaskId& id, const std::string& machine, int64_t cpu_millis,
                      int64_t cpu_limit, int world_size, int64_t resume_step) {
  world_->Log("witness",
              absl::StrCat("start ", id.Path(), " on ", machine, " from step ", resume_step));
  if (!started_.insert(id).second) world_->Violate(absl::StrCat("started twice: ", id.Path()));
  int64_t used = cpu_millis;
  for (const auto& [other, task] : live_) {
    if (other.job_uid == id.job_uid && other.generation != id.generation) {
      world_->Violate(absl::StrCat("two live generations: ", other.Path(), " on ", task.machine,
                                   " and ", id.Path(), " on ", machine));
    }
    if (task.machine == machine) used += task.cpu_millis;
  }
  if (used > cpu_limit) {
    world_->Violate(absl::StrCat(machine, " holds ", used, " of ", cpu_limit, " mCPU"));
  }
  if (const int together = OnOneNode(id); together > 1) {
    for (const auto& [other, task] : live_) {
      if (other.job_uid == id.job_uid && other.group == id.group && task.machine != machine &&
          other.index / together == id.index / together) {
        world_->Violate(absl::StrCat(id.Path(), " started on ", machine, " and ", other.Path(),
                                     " on ", task.machine, ", and all must be on one"));
      }
    }
  }
  const auto record = scheduler_disk_->records.find(scheduler::GangHeadKey(id.job_uid));
  GangHeadRecord head;
  if (record == scheduler_disk_->records.end() || !head.ParseFromString(record->second) ||
      head.generation() != id.generation || head.phase() == GangHeadRecord::PHASE_PREPARING) {
    world_->Violate(absl::StrCat("started without a stored START: ", id.Path()));
  }
  if (world_size != head.task_count() || !MayHave(id, world_size)) {
    world_->Violate(absl::StrCat(id.Path(), " was told of ", world_size, " Tasks; stored are ",
                                 head.task_count()));
  }
  if (gangs_.emplace(id.job_uid, id.generation).second) ++generations_;
  highest_started_[id.job_uid] = std::max(highest_started_[id.job_uid], id.generation);
  // What counts is the data_loader's disk and not what a Task was told: if the data_loader is killed
  // between its commit and its answer, the checkpoint is whole, and named by a record that the next
  // life reads. Its writer, asking again, is told that it is there; the next generation, if the
  // writer ends first, begins from it and not from an older one that happens to be acknowledged.
  const auto newest = newest_step_.find(id.job_uid);
  // Rank 0 may have committed already before a slower rank of its own generation starts.
  const bool own = std::any_of(durable_[id.job_uid].begin(), durable_[id.job_uid].end(),
                               [&id](const auto& c) { return c.first == id.generation; });
  if (!own && resume_step != (newest == newest_step_.end() ? 0 : newest->second)) {
    world_->Violate(absl::StrCat(id.Path(), " begins after step ", resume_step, " while step ",
                                 newest == newest_step_.end() ? 0 : newest->second,
                                 " is committed"));
  }
  live_[id] = {machine, cpu_millis, lives_.size()};
  lives_.push_back({id, machine, world_->now()});
}

bool Witness::MayHave(const TaskId& id, int tasks) const {
  const auto record = scheduler_disk_->records.find(scheduler::JobSpecKey(id.job_uid));
  JobSpecRecord job;
  return record != scheduler_disk_->records.end() && job.ParseFromString(record->second) &&
         tasks >= scheduler::MinTaskCount(job.spec()) &&
         tasks <= scheduler::MaxTaskCount(job.spec());
}

int Witness::OnOneNode(const TaskId& id) const {
  const auto record = scheduler_disk_->records.find(scheduler::JobSpecKey(id.job_uid));
  JobSpecRecord job;
  if (record == scheduler_disk_->records.end() || !job.ParseFromString(record->second)) {
    return 1;
  }
  for (const auto& group : job.spec().task_groups()) {
    if (group.name() != id.group) continue;
    if (group.topology().required() == Topology::LEVEL_NODE) return group.replicas();
    for (const auto& slice : group.slices()) {
      if (slice.level() == Topology::LEVEL_NODE) return slice.size();
    }
  }
  return 1;
}

void Witness::Ended(const TaskId& id, bool finished) {
  world_->Log("witness", absl::StrCat("end ", id.Path()));
  const auto live = live_.find(id);
  if (live == live_.end()) return;
  Life& life = lives_[live->second.life];
  life.ended = world_->now();
  life.finished = finished;
  live_.erase(live);
  mig_.Ended(id);
  datasets_.Ended(id);
}

void Witness::Committed(const std::string& job_uid, int64_t generation, int64_t step) {
  if (!durable_[job_uid].emplace(generation, step).second) return;
  world_->Log("witness",
              absl::StrCat("checkpoint ", job_uid, " generation ", generation, " step ", step));
  ++commits_;
  if (generation < highest_started_[job_uid]) {
    world_->Violate(absl::StrCat("generation ", generation, " of ", job_uid,
                                 " committed after generation ", highest_started_[job_uid],
                                 " had started"));
  }
  newest_step_[job_uid] = step;
}

void Witness::CommitAcknowledged(const std::string& job_uid, int64_t generation, int64_t step) {
  if (durable_[job_uid].count({generation, step}) == 0) {
    world_->Violate(absl::StrCat("checkpoint of ", job_uid, " step ", step,
                                 " acknowledged without being stored"));
  }
}

}  // namespace capstan::simulation
