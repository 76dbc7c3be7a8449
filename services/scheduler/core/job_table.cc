#include "services/scheduler/core/job_table.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace capstan::scheduler {

JobTable::JobTable(std::shared_ptr<RecordPool> pool)
    : pool_(pool == nullptr ? std::make_shared<RecordPool>() : std::move(pool)) {}

JobTable JobTable::Copy() const {
  JobTable copy(pool_);
  copy.index_ = index_;
  copy.names_ = names_;
  copy.kept_ = kept_;
  copy.waiting_ = waiting_;
  copy.unpacked_ = unpacked_;
  copy.restless_ = restless_;
  return copy;
}

void JobTable::Unpack(Index::const_iterator at, JobEntry* job) const {
  pool_->Unpack(PackedSpec{at->first, at->second.spec, at->second.ask}, &job->spec);
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

void JobTable::Order(Index::iterator at, bool may_wait) {
  const JobGlance glance = RecordPool::Glance(at->first, at->second.state);
  if (at->second.waits != 0) {
    kept_.Erase(glance.priority, glance.submit_sequence);
    waiting_.Erase(glance.priority, glance.submit_sequence);
  }
  at->second.waits = may_wait && glance.waits_for_room() ? 1 : 0;
  if (at->second.waits == 0) return;
  (glance.has_room_kept() ? kept_ : waiting_)
      .Insert(glance.priority, glance.submit_sequence, at->first);
}

std::vector<JobGlance> JobTable::WaitingWithGang() const {
  std::vector<JobGlance> waiting;
  for (const auto& [uid, job] : unpacked_) {
    if (!job.gang.has_value() || job.live()) continue;
    const JobGlance glance = JobGlance::Of(job);
    if (glance.waits_for_room()) waiting.push_back(glance);
  }
  return waiting;
}

size_t JobTable::CountAhead(const JobGlance& job, const std::vector<JobGlance>& with_gang) const {
  size_t count = kept_.CountBefore(job.priority, job.submit_sequence) +
                 waiting_.CountBefore(job.priority, job.submit_sequence);
  for (const JobGlance& other : with_gang) count += other.GoesBefore(job) ? 1 : 0;
  return count;
}

size_t JobTable::CountWaiting() const {
  return kept_.size() + waiting_.size() + WaitingWithGang().size();
}

void JobTable::ForEachWaiting(std::vector<JobGlance> with_gang,
                              absl::FunctionRef<bool(absl::string_view uid)> look) const {
  std::sort(with_gang.begin(), with_gang.end(),
            [](const JobGlance& a, const JobGlance& b) { return a.GoesBefore(b); });
  bool goes_on = true;
  // Those of `order` in turn with those that have a gang, as far as `is_its` says.
  const auto merge = [&](const WaitingOrder& order, auto is_its) {
    std::vector<JobGlance> own;
    std::copy_if(with_gang.begin(), with_gang.end(), std::back_inserter(own), is_its);
    auto next = own.begin();
    order.ForEach([&](const SharedBytes& identity) {
      if (next != own.end()) {
        const JobGlance glance = GlanceOf(index_.find(IdentityUid(identity)));
        for (; goes_on && next != own.end() && next->GoesBefore(glance); ++next) {
          goes_on = look(next->uid);
        }
      }
      return goes_on = goes_on && look(IdentityUid(identity));
    });
    for (; goes_on && next != own.end(); ++next) goes_on = look(next->uid);
  };
  merge(kept_, [](const JobGlance& job) { return job.has_room_kept(); });
  merge(waiting_, [](const JobGlance& job) { return !job.has_room_kept(); });
}

void JobTable::ForEachLive(
    absl::FunctionRef<void(absl::string_view uid, const JobEntry& job)> look) const {
  for (const auto& [uid, job] : unpacked_) {
    if (job.live()) look(uid, job);
  }
}

JobTable::Index::iterator JobTable::Place(const PackedSpec& spec) {
  const auto named = names_.find(spec.identity);
  if (named == names_.end() || !(*named == spec.identity)) {
    if (named != names_.end()) names_.erase(named);
    names_.insert(spec.identity);
  }
  const auto at = index_.find(spec.identity);
  if (at != index_.end()) {
    Order(at, /*may_wait=*/false);
    if (at->first == spec.identity) {
      at->second.spec = spec.spec;
      at->second.ask = spec.ask;
      return at;
    }
  }
  // The key is what it is known by.
  Packed packed;
  if (at != index_.end()) {
    packed = at->second;
    ForgetName(at->first);
    index_.erase(at);
  }
  packed.spec = spec.spec;
  packed.ask = spec.ask;
  return index_.emplace(spec.identity, std::move(packed)).first;
}

JobEntry& JobTable::Add(JobEntry job) {
  const std::string uid = job.uid();
  const PackedSpec spec = pool_->Pack(uid, job.spec);
  Packed& packed = Place(spec)->second;
  packed.state = pool_->Pack(job.state);
  packed.unpacked = 1;
  job.identity = spec.identity;
  restless_.push_back(uid);
  return unpacked_[uid] = std::move(job);
}

void JobTable::Repack(JobEntry* job) {
  const PackedSpec spec = pool_->Pack(job->uid(), job->spec);
  Place(spec);
  job->identity = spec.identity;
}

void JobTable::Put(const PackedSpec& spec, const PackedState& state, absl::optional<Gang> gang) {
  const auto at = Place(spec);
  Packed& packed = at->second;
  packed.state = state;
  const std::string uid(IdentityUid(spec.identity));
  unpacked_.erase(uid);
  packed.unpacked = gang.has_value() ? 1 : 0;
  Order(at, /*may_wait=*/!gang.has_value());
  if (!gang.has_value()) return;
  JobEntry& job = unpacked_[uid];
  pool_->Unpack(spec, &job.spec);
  pool_->Unpack(state, &job.state);
  job.gang = std::move(gang);
  job.identity = spec.identity;
}

void JobTable::Adopt(const JobTable& other, absl::string_view uid) {
  const auto at = other.index_.find(uid);
  const auto known = other.unpacked_.find(uid);
  const PackedSpec spec = {pool_->Intern(at->first), pool_->Intern(at->second.spec),
                           pool_->Intern(at->second.ask)};
  const bool has_gang = known != other.unpacked_.end() && known->second.gang.has_value();
  if (known != other.unpacked_.end() && !has_gang) {
    return Put(spec, pool_->Pack(known->second.state), absl::nullopt);
  }
  // Of one with a gang what is packed is not looked at before it is packed anew.
  Put(spec, {pool_->Intern(at->second.state.words), pool_->Intern(at->second.state.rest)},
      absl::nullopt);
  if (!has_gang) return;
  const auto mine = index_.find(uid);
  Order(mine, /*may_wait=*/false);
  mine->second.unpacked = 1;
  JobEntry& job = unpacked_[std::string(uid)];
  job = known->second;
  job.identity = spec.identity;
}

PackedSpec JobTable::SpecOf(absl::string_view uid) const {
  const auto at = index_.find(uid);
  return {at->first, at->second.spec, at->second.ask};
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
  Order(at, /*may_wait=*/false);
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
    if (job == unpacked_.end()) continue;
    const auto at = index_.find(uid);
    if (at->second.waits != 0) Order(at, /*may_wait=*/false);
    if (job->second.gang.has_value()) continue;
    at->second.state = pool_->Pack(std::move(job->second.state));
    at->second.unpacked = 0;
    unpacked_.erase(job);
    Order(at, /*may_wait=*/true);
  }
  restless_.clear();
  if (restless_.capacity() > 4096) restless_.shrink_to_fit();
}

}  // namespace capstan::scheduler
