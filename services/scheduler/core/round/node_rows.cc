#include "services/scheduler/core/round/node_rows.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <string>

namespace capstan::scheduler::round {

namespace {

int Compare(const std::array<std::string, kLevels>& a, const std::array<std::string, kLevels>& b) {
  for (size_t level = 0; level < a.size(); ++level) {
    if (const int order = a[level].compare(b[level]); order != 0) return order;
  }
  return 0;
}

}  // namespace

void NodeRows::Reset(const Snapshot& snapshot) {
  width_ = snapshot.dimensions;
  nodes_.clear();
  for (size_t n = 0; n < snapshot.nodes.size(); ++n) {
    if (snapshot.nodes[n].traits != nullptr) nodes_.push_back(static_cast<NodeIndex>(n));
  }
  // The index breaks ties only between nodes of one name, which no fleet should have.
  const auto goes_before = [&snapshot](NodeIndex a, NodeIndex b) {
    const int order = Compare(snapshot.nodes[a].traits->path, snapshot.nodes[b].traits->path);
    return order != 0 ? order < 0 : a < b;
  };
  // Those of a fleet whose names follow where they stand are sorted already.
  if (!std::is_sorted(nodes_.begin(), nodes_.end(), goes_before)) {
    std::sort(nodes_.begin(), nodes_.end(), goes_before);
  }
  const int count = size();
  const bool any_gpus = std::any_of(nodes_.begin(), nodes_.end(), [&snapshot](NodeIndex n) {
    return !snapshot.nodes[n].gpus.empty();
  });
  gpus_.assign(any_gpus ? static_cast<size_t>(count) : 0, {});
  positions_.assign(snapshot.nodes.size(), -1);
  traits_.resize(count);
  schedulable_.resize(count);
  free_.resize(static_cast<size_t>(count) * width_);
  for (int p = 0; p < count; ++p) {
    const NodeSlot& slot = snapshot.nodes[nodes_[p]];
    positions_[nodes_[p]] = p;
    traits_[p] = slot.traits;
    schedulable_[p] = slot.schedulable ? 1 : 0;
    std::copy_n(slot.free.begin(), width_, free_.begin() + static_cast<size_t>(p) * width_);
    if (any_gpus) gpus_[p] = slot.gpus;
  }
  bound_of_.assign(count, -1);
  bounds_.clear();
  bounded_.clear();
  FindDomains();
  ++sequence_;
  changed_.assign(count, sequence_);
  older_.resize(count);
  newer_.resize(count);
  for (int p = 0; p < count; ++p) {
    older_[p] = p + 1 < count ? p + 1 : -1;
    newer_[p] = p - 1;
  }
  newest_ = count > 0 ? 0 : -1;
}

void NodeRows::FindDomains() {
  for (int level = 0; level < kLevels; ++level) {
    std::vector<Range>& domains = domains_[level];
    std::vector<int>& of = domain_of_[level];
    domains.clear();
    of.assign(size(), -1);
    for (int p = 0; p < size(); ++p) {
      const auto& path = traits_[p]->path;
      if (path[level].empty()) continue;
      const bool same =
          p > 0 && of[p - 1] >= 0 &&
          std::equal(path.begin(), path.begin() + level + 1, traits_[p - 1]->path.begin());
      if (!same) domains.push_back({p, p});
      ++domains.back().last;
      of[p] = static_cast<int>(domains.size()) - 1;
    }
  }
}

int64_t NodeRows::available(int position, Dimension dimension, Plane plane) const {
  const int64_t free = free_[static_cast<size_t>(position) * width_ + dimension];
  if (plane == Plane::kNow || bound_of_[position] < 0) return free;
  return std::min(free, bounds_[bound_of_[position]].left[dimension]);
}

const std::vector<mig::Instances>& NodeRows::gpus(int position) const {
  static const auto& none = *new std::vector<mig::Instances>();
  return gpus_.empty() ? none : gpus_[position];
}

uint32_t NodeRows::Addable(int position, size_t gpu, Plane plane) const {
  const mig::Layouts& layouts = mig::Layouts::Of(traits_[position]->gpus[gpu].model);
  const uint32_t addable = layouts.Addable(gpus_[position][gpu].once);
  if (plane == Plane::kNow || bound_of_[position] < 0) return addable;
  return addable & layouts.Addable(bounds_[bound_of_[position]].gpus[gpu].once);
}

int64_t NodeRows::Room(int position, const mig::Ask& ask, Plane plane) const {
  int64_t room = 0;
  for (size_t g = 0; g < gpus(position).size(); ++g) {
    if (traits_[position]->gpus[g].model != ask.model) continue;
    room += mig::Layouts::Of(ask.model).Room(Addable(position, g, plane), ask.profile);
  }
  return room;
}

absl::optional<InstancePlace> NodeRows::Choose(int position, const mig::Ask& ask,
                                               Plane plane) const {
  std::vector<mig::Candidate> candidates;
  for (size_t g = 0; g < gpus(position).size(); ++g) {
    candidates.push_back(
        {traits_[position]->gpus[g].model, gpus_[position][g].once, Addable(position, g, plane)});
  }
  const absl::optional<mig::Choice> choice = mig::ChooseInstance(candidates, ask);
  if (!choice.has_value()) return absl::nullopt;
  return InstancePlace{static_cast<int16_t>(choice->gpu), static_cast<int16_t>(choice->position)};
}

void NodeRows::Touch(int position) {
  changed_[position] = ++sequence_;
  if (newest_ == position) return;
  const int newer = newer_[position];
  const int older = older_[position];
  if (newer >= 0) older_[newer] = older;
  if (older >= 0) newer_[older] = newer;
  older_[position] = newest_;
  newer_[position] = -1;
  newer_[newest_] = position;
  newest_ = position;
}

void NodeRows::Add(int position, const Request& request, int64_t times) {
  int64_t* const row = free_.data() + static_cast<size_t>(position) * width_;
  for (const Quantity& quantity : request) row[quantity.dimension] += quantity.amount * times;
  Touch(position);
}

void NodeRows::SetInstance(int position, const InstancePlace& place, bool stands) {
  mig::Instances& instances = gpus_[position][place.gpu];
  if (stands) {
    instances.Add(place.position);
  } else {
    instances.Remove(place.position);
  }
  Touch(position);
}

bool NodeRows::Assign(int position, const NodeSlot& slot) {
  int64_t* const row = free_.data() + static_cast<size_t>(position) * width_;
  if (std::equal(row, row + width_, slot.free.begin()) && slot.gpus == gpus(position)) {
    return false;
  }
  std::copy_n(slot.free.begin(), width_, row);
  if (!gpus_.empty()) gpus_[position] = slot.gpus;
  Touch(position);
  return true;
}

void NodeRows::SetBound(int position, const NodeBound& bound) {
  if (bound_of_[position] < 0) {
    bound_of_[position] = static_cast<int>(bounds_.size());
    bounds_.emplace_back();
    bounded_.push_back(position);
  }
  bounds_[bound_of_[position]] = bound;
  Touch(position);
}

void NodeRows::AddToBound(int position, const Request& request, int64_t times) {
  if (bound_of_[position] < 0) return;
  AddTo(bounds_[bound_of_[position]].left, request, times);
  Touch(position);
}

void NodeRows::SetInstanceInBound(int position, const InstancePlace& place, bool stands) {
  if (bound_of_[position] < 0) return;
  mig::Instances& instances = bounds_[bound_of_[position]].gpus[place.gpu];
  if (stands) {
    instances.Add(place.position);
  } else {
    instances.Remove(place.position);
  }
  Touch(position);
}

void NodeRows::ClearBounds() {
  for (int position : bounded_) bound_of_[position] = -1;
  bounds_.clear();
  bounded_.clear();
}

}  // namespace capstan::scheduler::round
