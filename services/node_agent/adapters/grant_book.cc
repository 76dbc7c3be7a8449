#include "services/node_agent/adapters/grant_book.h"

#include "absl/strings/str_cat.h"
#include "libs/rpc/peer.h"

namespace capstan::node_agent {
namespace {

GrantBook::Metadata Shown(const std::string& grant) { return {{rpc::kPlacementGrant, grant}}; }

}  // namespace

void GrantBook::Hold(const HoldGrant& grant) {
  absl::MutexLock lock(&mutex_);
  held_[grant.id] = Held{grant.job, grant.grant};
}

void GrantBook::Drop(const session::TaskId& id) {
  absl::MutexLock lock(&mutex_);
  held_.erase(id);
}

GrantBook::Metadata GrantBook::OfTask(const session::TaskId& id) const {
  absl::MutexLock lock(&mutex_);
  const auto held = held_.find(id);
  return held == held_.end() ? Metadata() : Shown(held->second.grant);
}

GrantBook::Metadata GrantBook::OfHolder(absl::string_view holder) const {
  absl::MutexLock lock(&mutex_);
  for (const auto& [id, held] : held_) {
    if (absl::StrCat(id.job_uid, "/", id.generation) == holder) return Shown(held.grant);
  }
  return {};
}

GrantBook::Metadata GrantBook::OfJob(absl::string_view job) const {
  absl::MutexLock lock(&mutex_);
  for (const auto& [id, held] : held_) {
    if (held.job == job) return Shown(held.grant);
  }
  return {};
}

}  // namespace capstan::node_agent
