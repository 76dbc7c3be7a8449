#include "services/scheduler/core/simulated_state.h"

#include <cstdint>

namespace capstan::scheduler {

using capstan::scheduler::v1::JobSpec;
using capstan::scheduler::v1::SimulatePlacementRequest;

void StateCopy::Begin(const Model& model) {
  *this = StateCopy();
  from_ = &model;
  state_.model = Model(model.jobs.pool()->Fork());
  model.jobs.ForEachLive(
      [this](absl::string_view uid, const JobEntry&) { uids_.emplace_back(uid); });
  const size_t live = uids_.size();
  // Those that room is made or kept for come first.
  model.jobs.ForEachWaiting([&](absl::string_view uid) {
    if (uids_.size() - live == kMaxSimulatedWaiting) {
      const JobGlance last = *model.jobs.Glance(uids_.back());
      last_ = {last.priority, last.submit_sequence};
      return false;
    }
    uids_.emplace_back(uid);
    return true;
  });
}

bool StateCopy::IsWanted(const Model& model, absl::string_view uid) const {
  const absl::optional<JobGlance> job = model.jobs.Glance(uid);
  if (!job.has_value() || job->live) return job.has_value();
  if (!job->waits_for_room()) return false;
  return !last_.has_value() || job->has_room_kept() || job->priority > last_->first ||
         (job->priority == last_->first && job->submit_sequence <= last_->second);
}

bool StateCopy::Copy(const Model& model, size_t jobs) {
  if (from_ != &model) Begin(model);
  JobTable& copy = state_.model.jobs;
  copy.pool()->LearnFrom(*model.jobs.pool());
  const size_t end = jobs < uids_.size() - next_ ? next_ + jobs : uids_.size();
  for (; next_ < end; ++next_) {
    if (IsWanted(model, uids_[next_])) copy.Adopt(model.jobs, uids_[next_]);
  }
  if (next_ < uids_.size()) return false;
  for (const std::string& uid : changed_) {
    copy.Erase(uid);
    if (IsWanted(model, uid)) copy.Adopt(model.jobs, uid);
  }
  changed_.clear();
  // What is gone through is not looked at before the simulation does.
  copy.Rest();
  Model fleet = model.CopyFleet(copy.pool());
  fleet.jobs = std::move(copy);
  state_.model = std::move(fleet);
  state_.waiting = static_cast<int>(state_.model.jobs.CountWaiting());
  state_.left_out = static_cast<int>(model.jobs.CountWaiting()) - state_.waiting;
  return true;
}

void StateCopy::JobsChanged(const std::set<std::string>& uids) {
  if (from_ != nullptr) changed_.insert(uids.begin(), uids.end());
}

SimulatedState StateForSimulation(const Model& model, const SimulatePlacementRequest& request) {
  StateCopy copy;
  copy.Copy(model, SIZE_MAX);
  SimulatedState state = copy.Take();
  JobTable& jobs = state.model.jobs;
  for (const JobSpec& spec : request.jobs()) {
    for (const auto& dependency : spec.after()) {
      const JobEntry* const job = model.FindJobByName(dependency.job());
      if (job != nullptr && jobs.count(job->uid()) == 0) jobs.Adopt(model.jobs, job->uid());
    }
  }
  jobs.Rest();
  return state;
}

}  // namespace capstan::scheduler
