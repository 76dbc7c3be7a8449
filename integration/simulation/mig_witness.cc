#include "integration/simulation/mig_witness.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "integration/simulation/mig_gpus.h"
#include "libs/mig/placed_instance.h"
#include "services/scheduler/core/keys.h"
#include "services/scheduler/core/records.pb.h"

namespace capstan::simulation {

using ::capstan::scheduler::records::v1::GangHeadRecord;
using ::capstan::scheduler::records::v1::JobSpecRecord;
using ::capstan::scheduler::records::v1::PlacementChunkRecord;
using session::TaskId;

absl::optional<MigWitness::MigInstance> MigWitness::Placed(const TaskId& id) const {
  const auto read = [this](const std::string& key, auto* record) {
    const auto stored = scheduler_disk_->records.find(key);
    if (stored != scheduler_disk_->records.end()) record->ParseFromString(stored->second);
  };
  JobSpecRecord job;
  GangHeadRecord head;
  PlacementChunkRecord placed;
  read(scheduler::JobSpecKey(id.job_uid), &job);
  read(scheduler::GangHeadKey(id.job_uid), &head);
  // Gangs are small here: one chunk has all ranks.
  read(scheduler::PlacementKey(id.job_uid, id.generation, 0), &placed);
  int before = 0;
  for (int g = 0; g < job.spec().task_groups_size(); ++g) {
    const auto& group = job.spec().task_groups(g);
    const bool asks = group.resources().has_mig();
    if (group.name() == id.group) {
      if (!asks || before + id.index >= placed.mig_size()) return absl::nullopt;
      MigInstance instance;
      instance.set_gpu(placed.mig(before + id.index).gpu());
      instance.set_start(placed.mig(before + id.index).start());
      instance.set_model(group.resources().mig().model());
      instance.set_profile(group.resources().mig().profile());
      return instance;
    }
    if (asks) before += head.group_sizes().empty() ? group.replicas() : head.group_sizes(g);
  }
  return absl::nullopt;
}

void MigWitness::Started(const TaskId& id, const std::string& machine,
                         const absl::optional<MigInstance>& found) {
  const absl::optional<MigInstance> placed = Placed(id);
  const auto words = [](const absl::optional<MigInstance>& instance) {
    return instance.has_value() ? MigInstanceInWords(*instance) : std::string("no MIG instance");
  };
  const bool is_same = placed.has_value() == found.has_value() &&
                       (!placed.has_value() || mig::IsSameInstance(*placed, *found));
  if (!is_same) {
    world_->Violate(absl::StrCat(id.Path(), " on ", machine, " finds ", words(found),
                                 ", and its placement says ", words(placed)));
  }
  if (!found.has_value()) return;
  ++starts_;
  std::vector<MigInstance> together = {*found};
  std::string others;
  for (const auto& [other, live] : live_) {
    if (live.machine != machine || live.instance.gpu() != found->gpu()) continue;
    together.push_back(live.instance);
    absl::StrAppend(&others, ", ", MigInstanceInWords(live.instance), " of ", other.Path());
  }
  if (!CanStandTogether(found->model(), together)) {
    world_->Violate(absl::StrCat(id.Path(), " on ", machine, " has ", words(found),
                                 ", which cannot stand beside what others have", others));
  }
  live_[id] = {machine, *found};
}

void MigWitness::Removed(const std::string& machine, const MigInstance& instance) {
  for (const auto& [id, live] : live_) {
    if (live.machine != machine || !mig::IsSameInstance(live.instance, instance)) continue;
    world_->Violate(absl::StrCat(MigInstanceInWords(instance), " on ", machine,
                                 " is removed under ", id.Path(), ", which lives"));
  }
}

}  // namespace capstan::simulation
