#include "services/scheduler/core/job_table.h"

#include <algorithm>
#include <utility>

namespace capstan::scheduler {

JobTable::JobTable(std::shared_ptr<RecordPool> pool)
    : pool_(pool == nullptr ? std::make_shared<RecordPool>() : std::move(pool)) {}

void JobTable::Unpack(Index::const_iterator at, JobEntry* job) const {
  pool_->Unpack(PackedSpec{at->first, at->second.spec}, &job->spec);
  pool_->Unpack(at->second.state, &job->state);
  job->identity = at->first;
}

JobEntry* JobTable::Unpacked(absl::string_view uid) const {
  const auto known = unpacked_.find(uid);
  if (known != unpacked_.end()) return &known->second;
  const auto at = index_.find(uid);
  if (at == index_.end()) return nullptr;
  at->second.unpacked = 1;
  JobEntry& job = unpacked_[std::string(uid)];
  Unpack(at, &job);
  restless_.emplace_back(uid);
  return &job;
}

const JobTable::value_type* JobTable::Read(Index::const_iterator at,
                                           std::shared_ptr<value_type>* read) const {
  if (*read != nullptr) return read->get();
  const absl::string_view uid = IdentityUid(at->first);
  if (at->second.unpacked != 0) return &*unpacked_.find(uid);
  *read = std::make_shared<value_type>(std::string(uid), JobEntry());
  Unpack(at, &(*read)->second);
  return read->get();
}

JobEntry* JobTable::FindByName(absl::string_view name) {
  const auto named = names_.find(name);
  return named == names_.end() ? nullptr : Unpacked(IdentityUid(*named));
}

const JobEntry* JobTable::FindByName(absl::string_view name) const {
  const auto named = names_.find(name);
  return named == names_.end() ? nullptr : Unpacked(IdentityUid(*named));
}

JobGlance JobTable::GlanceOf(Index::const_iterator at) const {
  if (at->second.unpacked == 0) return RecordPool::Glance(at->first, at->second.state);
  return JobGlance::Of(unpacked_.find(IdentityUid(at->first))->second);
}

absl::optional<JobGlance> JobTable::Glance(absl::string_view uid) const {
  const auto at = index_.find(uid);
  if (at == index_.end()) return absl::nullopt;
  return GlanceOf(at);
}

void JobTable::ForEachGlance(absl::FunctionRef<void(const JobGlance&)> look) const {
  for (auto at = index_.begin(); at != index_.end(); ++at) look(GlanceOf(at));
}

JobTable::Packed& JobTable::Place(const PackedSpec& spec) {
  const auto named = names_.find(spec.identity);
  if (named == names_.end() || !(*named == spec.identity)) {
    if (named != names_.end()) names_.erase(named);
    names_.insert(spec.identity);
  }
  const auto at = index_.find(spec.identity);
  if (at == index_.end()) {
    Packed& packed = index_[spec.identity];
    packed.spec = spec.spec;
    return packed;
  }
  if (at->first == spec.identity) {
    at->second.spec = spec.spec;
    return at->second;
  }
  // The key is what it is known by.
  Packed packed = at->second;
  packed.spec = spec.spec;
  ForgetName(at->first);
  index_.erase(at);
  return index_[spec.identity] = std::move(packed);
}

JobEntry& JobTable::Add(JobEntry job) {
  const std::string uid = job.uid();
  const PackedSpec spec = pool_->Pack(uid, job.spec);
  Packed& packed = Place(spec);
  packed.state = {};
  packed.unpacked = 1;
  job.identity = spec.identity;
  restless_.push_back(uid);
  return unpacked_[uid] = std::move(job);
}

void JobTable::Put(const PackedSpec& spec, const PackedState& state, absl::optional<Gang> gang) {
  Packed& packed = Place(spec);
  packed.state = state;
  const std::string uid(IdentityUid(spec.identity));
  unpacked_.erase(uid);
  packed.unpacked = gang.has_value() ? 1 : 0;
  if (!gang.has_value()) return;
  JobEntry& job = unpacked_[uid];
  pool_->Unpack(spec, &job.spec);
  pool_->Unpack(state, &job.state);
  job.gang = std::move(gang);
  job.identity = spec.identity;
}

PackedSpec JobTable::SpecOf(absl::string_view uid) const {
  const auto at = index_.find(uid);
  return {at->first, at->second.spec};
}

PackedState JobTable::StateOf(absl::string_view uid) const {
  const auto at = index_.find(uid);
  return at->second.unpacked != 0 ? pool_->Pack(unpacked_.find(uid)->second.state)
                                  : at->second.state;
}

void JobTable::ForgetName(const SharedBytes& identity) {
  const auto named = names_.find(identity);
  // It may be another's by now.
  if (named != names_.end() && *named == identity) names_.erase(named);
}

void JobTable::Erase(absl::string_view uid) {
  const auto at = index_.find(uid);
  if (at == index_.end()) return;
  // What the uid is part of may go first.
  const SharedBytes identity = at->first;
  const auto unpacked = unpacked_.find(uid);
  index_.erase(at);
  ForgetName(identity);
  if (unpacked != unpacked_.end()) unpacked_.erase(unpacked);
}

void JobTable::SetRevision(absl::string_view uid, int64_t revision) {
  const auto at = index_.find(uid);
  if (at != index_.end()) at->second.revision = static_cast<uint64_t>(revision);
}

int64_t JobTable::revision(absl::string_view uid) const {
  const auto at = index_.find(uid);
  return at == index_.end() ? 0 : static_cast<int64_t>(at->second.revision);
}

void JobTable::Rest() {
  for (const std::string& uid : restless_) {
    const auto job = unpacked_.find(uid);
    if (job == unpacked_.end() || job->second.gang.has_value()) continue;
    Packed& packed = index_.find(uid)->second;
    packed.state = pool_->Pack(std::move(job->second.state));
    packed.unpacked = 0;
    unpacked_.erase(job);
  }
  restless_.clear();
  if (restless_.capacity() > 4096) restless_.shrink_to_fit();
}

}  // namespace capstan::scheduler
