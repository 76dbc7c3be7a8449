#include "services/scheduler/core/job_entry.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace capstan::scheduler {

using capstan::scheduler::v1::Job;
using capstan::type::v1::TaskObservation;

std::string NodeId::Name() const { return absl::StrCat("clusters/", cluster, "/nodes/", node); }

bool Gang::ended(int rank) const { return tasks[rank].state() == TaskObservation::STATE_ENDED; }

bool Gang::all_ended() const {
  return std::all_of(tasks.begin(), tasks.end(), [](const rec::TaskRecord& task) {
    return task.state() == TaskObservation::STATE_ENDED;
  });
}

bool JobEntry::final() const {
  return state.state() == Job::STATE_SUCCEEDED || state.state() == Job::STATE_FAILED ||
         state.state() == Job::STATE_CANCELLED;
}

}  // namespace capstan::scheduler
