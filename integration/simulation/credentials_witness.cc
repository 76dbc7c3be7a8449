#include "integration/simulation/credentials_witness.h"

#include <utility>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/digest/sha256.h"
#include "proto/capstan/credentials/v1/record.pb.h"
#include "proto/capstan/event/v1/audit.pb.h"
#include "services/credentials/core/store_key.h"

namespace capstan::simulation {

namespace pb = ::capstan::credentials::v1;

void CredentialsWitness::Loaded() {
  revision_ = 0;
  walked_ = 0;
  hash_ = std::string(32, '\0');
  WalkChain();
  std::string why;
  if (!AllStored(&why)) world_->Violate(why);
}

void CredentialsWitness::Asked(const credentials::Event& event, credentials::CallId call) {
  const auto* back = std::get_if<credentials::DeleteDenial>(&event);
  if (back == nullptr) return;
  taken_back_[back->spiffe_id] = call;
  denied_.erase(back->spiffe_id);
}

void CredentialsWitness::Answered(const credentials::Event& event, credentials::CallId call,
                                  const absl::StatusOr<credentials::Outcome>& outcome,
                                  absl::Time wall, const std::vector<store::Put>& audits) {
  WalkChain();
  for (const store::Put& audit : audits) {
    const auto stored = disk_->records.find(audit.key);
    if (stored == disk_->records.end() || stored->second != audit.value) {
      world_->Violate(absl::StrCat("answered before its audit record ", audit.key, " is stored"));
    }
    acts_[audit.key] = audit.value;
  }
  if (!outcome.ok()) return;
  if (const auto* order = std::get_if<credentials::IssueOrder>(&*outcome)) {
    Issued(event, *order, wall);
  }
  if (const auto* deny = std::get_if<credentials::DenyIdentity>(&event)) {
    // One that was asked for before somebody asked to take it back is over.
    if (call > taken_back_[deny->spiffe_id]) denied_.insert(deny->spiffe_id);
  }
}

void CredentialsWitness::Issued(const credentials::Event& event,
                                const credentials::IssueOrder& order, absl::Time wall) {
  if (!serials_.insert(order.serial).second) {
    world_->Violate(absl::StrCat("serial ", order.serial, " is given twice"));
  }
  std::string node;
  if (const auto* task = std::get_if<credentials::IssueTaskSvid>(&event)) {
    node = task->node.ToString();
    Holder& holder = holders_[order.spiffe_id];
    if (!holder.node.empty() && holder.node != node && holder.not_after > wall) {
      world_->Violate(absl::StrCat(node, " gets a certificate of ", order.spiffe_id, ", which ",
                                   holder.node, " holds"));
    }
    if (holder.node != node || holder.not_after < order.not_after) {
      holder = {node, order.not_after};
    }
    tasks_.push_back(order.spiffe_id);
  }
  for (const std::string& identity : {order.spiffe_id, node}) {
    if (denied_.count(identity) == 0) continue;
    world_->Violate(absl::StrCat("a certificate of ", order.spiffe_id, " is issued although ",
                                 identity, " is denied"));
  }
  if (const auto* join = std::get_if<credentials::Join>(&event)) {
    const auto used = used_tokens_.emplace(join->token_id, join->key.spki);
    if (!used.second && used.first->second != join->key.spki) {
      world_->Violate(absl::StrCat("join token ", join->token_id, " works for a second key"));
    }
  }
}

void CredentialsWitness::WalkChain() {
  while (true) {
    const auto stored = disk_->records.find(credentials::AuditKey(walked_ + 1));
    if (stored == disk_->records.end()) break;
    event::v1::AuditRecord record;
    if (!record.ParseFromString(stored->second) || record.sequence() != walked_ + 1 ||
        record.previous_hash() != hash_) {
      return world_->Violate(absl::StrCat("the audit chain is broken at ", walked_ + 1));
    }
    hash_ = Sha256::Of(stored->second);
    ++walked_;
  }
  const auto stored = disk_->records.find(credentials::kAuditHeadKey);
  pb::AuditHeadRecord head;
  if (stored != disk_->records.end()) head.ParseFromString(stored->second);
  if (head.sequence() != walked_ || (walked_ != 0 && head.hash() != hash_)) {
    world_->Violate(
        absl::StrCat("the audit chain ends at ", walked_, " and its head is ", head.sequence()));
  }
}

void CredentialsWitness::Published(const pb::PolicySnapshot& policy) {
  const auto stored = disk_->records.find(credentials::kPolicyHeadKey);
  pb::PolicyHeadRecord head;
  if (stored != disk_->records.end()) head.ParseFromString(stored->second);
  if (policy.revision() != head.revision()) {
    world_->Violate(absl::StrCat("policy ", policy.revision(), " is published and ",
                                 head.revision(), " is stored"));
  }
  if (policy.revision() < revision_) {
    world_->Violate(absl::StrCat("policy ", policy.revision(), " is published after ", revision_));
  }
  revision_ = policy.revision();
  std::set<std::string> shown(policy.denied_ids().begin(), policy.denied_ids().end());
  const std::string prefix = credentials::kDenyPrefix;
  size_t denials = 0;
  for (auto it = disk_->records.lower_bound(prefix);
       it != disk_->records.end() && absl::StartsWith(it->first, prefix); ++it) {
    pb::DenyRecord record;
    record.ParseFromString(it->second);
    ++denials;
    if (shown.count(record.spiffe_id()) == 0) {
      world_->Violate(absl::StrCat("the published policy lacks ", record.spiffe_id()));
    }
  }
  if (denials != shown.size()) world_->Violate("the published policy denies what is not stored");
}

bool CredentialsWitness::AllStored(std::string* why) const {
  for (const auto& [key, value] : acts_) {
    const auto stored = disk_->records.find(key);
    if (stored != disk_->records.end() && stored->second == value) continue;
    *why = absl::StrCat("acknowledged act ", key, " is not in the audit chain");
    return false;
  }
  for (const std::string& identity : denied_) {
    if (disk_->records.count(credentials::DeniedIdKey(identity)) != 0) continue;
    *why = absl::StrCat("acknowledged denial of ", identity, " is not stored");
    return false;
  }
  return true;
}

}  // namespace capstan::simulation
