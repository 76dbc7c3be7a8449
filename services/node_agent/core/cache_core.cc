#include "services/node_agent/core/cache_core.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/content/eviction.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "libs/time/proto_time.h"

namespace capstan::node_agent {
namespace {

constexpr int kSchemaVersion = 1;

}  // namespace

absl::StatusOr<std::vector<std::string>> CacheCore::Load(
    const CacheRecord& record, const std::map<std::string, int64_t>& whole,
    const std::set<std::string>& staged) {
  if (record.schema_version() > kSchemaVersion) {
    return status::Error(
        absl::StatusCode::kFailedPrecondition, "SCHEMA_TOO_NEW",
        absl::StrCat("the data cache's record has schema ", record.schema_version(),
                     "; this program knows ", kSchemaVersion));
  }
  for (const CacheRecord::Entry& stored : record.entries()) {
    const bool is_whole = whole.count(stored.key()) != 0;
    // What is neither there nor on its way was lost with its disk, or never began to come: a holder
    // asks again before its Task starts.
    if (!is_whole && staged.count(stored.key()) == 0) continue;
    Entry& entry = entries_[stored.key()];
    entry.bytes = stored.bytes();
    entry.state = is_whole ? State::kWhole : State::kStaged;
    entry.last_use = ToTime(stored.last_use_time());
    entry.holders.insert(stored.holders().begin(), stored.holders().end());
  }
  for (const auto& [key, bytes] : whole) {
    const auto [it, added] = entries_.try_emplace(key);
    if (!added) continue;
    it->second.bytes = bytes;
    it->second.state = State::kWhole;
  }
  std::vector<std::string> useless;
  for (const std::string& key : staged) {
    const auto found = entries_.find(key);
    if (found == entries_.end() || found->second.state == State::kWhole) useless.push_back(key);
  }
  return useless;
}

absl::StatusOr<CacheCore::Plan> CacheCore::Want(const std::string& key, int64_t bytes,
                                                const std::string& holder, const std::string& what,
                                                absl::Time now) {
  Plan plan;
  const auto found = entries_.find(key);
  if (found == entries_.end() || found->second.state == State::kStaged) {
    content::SiteSpace space{limit_bytes_, 0};
    std::vector<content::HeldContent> held;
    for (const auto& [other, entry] : entries_) {
      if (other == key) continue;
      if (entry.state == State::kFetching) {
        space.reserved_bytes += entry.bytes;
        continue;
      }
      content::HeldContent& content = held.emplace_back();
      content.key = other;
      content.bytes = entry.bytes;
      content.last_use = entry.last_use;
      for (const std::string& job : entry.holders) {
        content.jobs.push_back(job.substr(0, job.find('/')));
      }
    }
    CAPSTAN_ASSIGN_OR_RETURN(plan.leaving, content::MakeRoom(space, held, bytes, what));
    for (const std::string& leaving : plan.leaving) entries_.erase(leaving);
    Entry& entry = entries_[key];
    entry.bytes = bytes;
    entry.state = State::kFetching;
    plan.next = Plan::Next::kFetch;
    plan.changed = true;
  } else {
    plan.next = found->second.state == State::kWhole ? Plan::Next::kUse : Plan::Next::kWait;
  }
  Entry& entry = entries_[key];
  entry.last_use = std::max(entry.last_use, now);
  if (entry.holders.insert(holder).second) plan.changed = true;
  return plan;
}

void CacheCore::Came(const std::string& key) {
  const auto found = entries_.find(key);
  if (found != entries_.end()) found->second.state = State::kWhole;
}

void CacheCore::Failed(const std::string& key) {
  const auto found = entries_.find(key);
  if (found != entries_.end()) found->second.state = State::kStaged;
}

bool CacheCore::Release(const std::string& holder, absl::Time now) {
  bool changed = false;
  for (auto& [key, entry] : entries_) {
    if (entry.holders.erase(holder) == 0) continue;
    entry.last_use = std::max(entry.last_use, now);
    changed = true;
  }
  return changed;
}

CacheRecord CacheCore::Record() const {
  CacheRecord record;
  record.set_schema_version(kSchemaVersion);
  for (const auto& [key, entry] : entries_) {
    CacheRecord::Entry& stored = *record.add_entries();
    stored.set_key(key);
    stored.set_bytes(entry.bytes);
    stored.set_whole(entry.state == State::kWhole);
    if (entry.last_use > absl::InfinitePast()) {
      *stored.mutable_last_use_time() = ToProto(entry.last_use);
    }
    for (const std::string& holder : entry.holders) stored.add_holders(holder);
  }
  return record;
}

int64_t CacheCore::bytes() const {
  int64_t sum = 0;
  for (const auto& [key, entry] : entries_) sum += entry.bytes;
  return sum;
}

}  // namespace capstan::node_agent
