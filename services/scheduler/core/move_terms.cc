#include "services/scheduler/core/move_terms.h"

#include <algorithm>
#include <map>
#include <utility>

#include "libs/mig/profiles.h"
#include "services/scheduler/core/mig_amounts.h"
#include "services/scheduler/core/usage.h"

namespace capstan::scheduler {
namespace {

constexpr int64_t kThousandths = 1000;
// Beyond this all cost the same; sums stay far below 2^63.
constexpr absl::Duration kMostCost = absl::Hours(24 * 365 * 100);

// Of whole GPUs, in thousandths, what all of its Tasks have.
int64_t GpusOf(const JobEntry& job) {
  int64_t gpus = 0;
  for (int g = 0; g < job.spec.spec().task_groups_size(); ++g) {
    const Amounts each = Amounts::From(job.spec.spec().task_groups(g).resources());
    const absl::optional<mig::Ask> ask = each.mig.ask();
    const int parts = ask.has_value() ? mig::DeviceModels()[ask->model].memory_slices : 1;
    for (const auto& [name, count] : each.accelerators) {
      gpus += count * SizeOf(job, g) * kThousandths / (mig::IsSliceResource(name) ? parts : 1);
    }
  }
  return gpus;
}

}  // namespace

absl::Duration CostOfMove(const JobEntry& job, absl::Duration unsaved, absl::Duration act_cost) {
  const absl::Duration lost = unsaved * GpusOf(job) / kThousandths;
  return std::clamp(lost + act_cost, absl::Milliseconds(1), kMostCost);
}

std::set<std::string> SliceResourcesOf(const GangRequest& request) {
  std::set<std::string> slices;
  for (const GangRequest::Group& group : request.groups) {
    const absl::optional<mig::Ask> ask = group.each.mig.ask();
    if (ask.has_value()) slices.insert(mig::SliceResource(mig::DeviceModels()[ask->model]));
  }
  return slices;
}

GangRequest MovedRequest(GangRequest request, const JobEntry& job) {
  for (size_t group = 0; group < request.groups.size(); ++group) {
    request.groups[group].replicas = SizeOf(job, static_cast<int>(group));
    request.groups[group].more = 0;
  }
  request.clusters = {job.gang->head.cluster()};
  return request;
}

rec::PlannedPlace PlannedPlaceOf(const std::vector<NodeCapacity>& nodes,
                                 const GangPlacement& placement) {
  rec::PlannedPlace place;
  std::map<int, uint32_t> index;
  for (const int at : placement.nodes) {
    const auto [known, fresh] = index.emplace(at, static_cast<uint32_t>(place.nodes_size()));
    if (fresh) place.add_nodes(nodes[at].id.node);
    place.add_node_index(known->second);
  }
  for (const absl::optional<MigSpot>& spot : placement.mig) {
    if (spot.has_value()) *place.add_mig() = PlaceOf(*spot);
  }
  return place;
}

absl::optional<GangPlacement> PlacementOf(const JobEntry& job, const rec::PlannedPlace& place,
                                          absl::FunctionRef<int(const NodeId& id)> position_of) {
  GangPlacement placement;
  const auto& spec = job.spec.spec();
  for (int g = 0; g < spec.task_groups_size(); ++g) placement.sizes.push_back(SizeOf(job, g));
  const int tasks = static_cast<int>(job.gang->tasks.size());
  if (place.node_index_size() != tasks) return absl::nullopt;
  int instances = 0;
  for (int rank = 0; rank < tasks; ++rank) {
    const uint32_t index = place.node_index(rank);
    if (index >= static_cast<uint32_t>(place.nodes_size())) return absl::nullopt;
    const int at = position_of({job.gang->head.cluster(), place.nodes(static_cast<int>(index))});
    if (at < 0) return absl::nullopt;
    placement.nodes.push_back(at);
    const auto& resources = spec.task_groups(GroupOf(job, rank).first).resources();
    if (!resources.has_mig()) continue;
    if (instances == place.mig_size()) return absl::nullopt;
    capstan::type::v1::MigInstance instance;
    instance.set_gpu(place.mig(instances).gpu());
    instance.set_model(resources.mig().model());
    instance.set_profile(resources.mig().profile());
    instance.set_start(place.mig(instances++).start());
    const absl::optional<MigSpot> spot = SpotOf(instance);
    if (!spot.has_value()) return absl::nullopt;
    placement.mig.resize(static_cast<size_t>(rank) + 1);
    placement.mig.back() = spot;
  }
  if (!placement.mig.empty()) placement.mig.resize(static_cast<size_t>(tasks));
  return placement;
}

MoveTerms::MoveTerms(const Model* model, const std::vector<HeldGang>* held,
                     const GangRequest& wants, absl::Duration act_cost,
                     std::function<GangRequest(const JobEntry& job)> request_of)
    : model_(model),
      held_(held),
      slices_(SliceResourcesOf(wants)),
      act_cost_(act_cost),
      request_of_(std::move(request_of)) {}

bool MoveTerms::IsInTheWay(int held) const {
  const auto& shares = (*held_)[held].shares;
  return std::any_of(shares.begin(), shares.end(), [this](const auto& share) {
    const auto& has = share.second.accelerators;
    return std::any_of(has.begin(), has.end(),
                       [this](const auto& entry) { return slices_.count(entry.first) > 0; });
  });
}

absl::optional<int64_t> MoveTerms::CostOf(int held) const {
  const HeldGang& gang = (*held_)[held];
  if (!gang.preemptible || gang.ending || gang.is_spare || !IsInTheWay(held)) return absl::nullopt;
  const JobEntry& job = *model_->FindJob(gang.uid);
  // One that is held would not start again.
  if (job.state.hold()) return absl::nullopt;
  // Nor if it was told to end in this round.
  if (!job.live() || job.gang->head.phase() == rec::GangHeadRecord::PHASE_STOPPING) {
    return absl::nullopt;
  }
  return absl::ToInt64Milliseconds(CostOfMove(job, gang.unsaved, act_cost_));
}

GangRequest MoveTerms::RequestOf(int held) const {
  const JobEntry& job = *model_->FindJob((*held_)[held].uid);
  return MovedRequest(request_of_(job), job);
}

}  // namespace capstan::scheduler
