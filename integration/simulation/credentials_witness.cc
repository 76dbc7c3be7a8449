#include "integration/simulation/credentials_witness.h"

#include <algorithm>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/digest/sha256.h"
#include "libs/time/proto_time.h"
#include "proto/capstan/credentials/v1/record.pb.h"
#include "services/credentials/core/act.h"
#include "services/credentials/core/store_key.h"

namespace capstan::simulation {

namespace pb = ::capstan::credentials::v1;
namespace act = ::capstan::credentials::act;

void CredentialsWitness::Started(const std::string& replica) {
  shown_[replica] = Shown();
  std::string why;
  if (!AllStored(&why)) world_->Violate(why);
}

void CredentialsWitness::Stored() {
  WalkChain();
  WalkKeys();
  WalkPolicy();
}

void CredentialsWitness::WalkChain() {
  while (true) {
    const auto sequence = static_cast<int64_t>(chain_.size()) + 1;
    const auto stored = disk_->records.find(credentials::AuditKey(sequence));
    if (stored == disk_->records.end()) break;
    event::v1::AuditRecord record;
    if (!record.ParseFromString(stored->second) || record.sequence() != sequence ||
        record.previous_hash() != hash_) {
      return world_->Violate(absl::StrCat("the audit chain is broken at ", sequence));
    }
    hash_ = Sha256::Of(stored->second);
    chain_.push_back(stored->second);
    Walk(record);
  }
  const auto stored = disk_->records.find(credentials::kAuditHeadKey);
  pb::AuditHeadRecord head;
  if (stored != disk_->records.end()) head.ParseFromString(stored->second);
  const auto length = static_cast<int64_t>(chain_.size());
  if (head.sequence() != length || (length != 0 && head.hash() != hash_)) {
    world_->Violate(
        absl::StrCat("the audit chain ends at ", length, " and its head is ", head.sequence()));
  }
}

// The chain is the order in which things have happened, whichever replica has done them.
void CredentialsWitness::Walk(const event::v1::AuditRecord& record) {
  if (record.outcome_code() != 0) return;
  if (record.act() == act::kDenyIdentity) {
    chain_denied_.insert(record.resource());
  } else if (record.act() == act::kDeleteDenial) {
    chain_denied_.erase(record.resource());
    denied_.erase(record.resource());
    taken_back_[record.resource()] = next_ticket_;
  } else if (record.act() == act::kJoin || record.act() == act::kRenewSvid ||
             record.act() == act::kIssueTaskSvid || record.act() == act::kIssueTaskJwt) {
    for (const std::string& identity : {record.resource(), record.principal()}) {
      if (chain_denied_.count(identity) == 0) continue;
      world_->Violate(absl::StrCat("something is issued to ", record.resource(), " although ",
                                   identity, " is denied"));
    }
  }
}

void CredentialsWitness::WalkKeys() {
  const std::string prefix = credentials::kJwtKeyPrefix;
  std::set<std::string> now;
  std::set<std::string> jwks;
  for (auto it = disk_->records.lower_bound(prefix);
       it != disk_->records.end() && absl::StartsWith(it->first, prefix); ++it) {
    pb::JwtKeyRecord key;
    key.ParseFromString(it->second);
    now.insert(key.key_id());
    jwks.insert(key.public_jwk());
  }
  for (const std::string& key : keys_) {
    if (now.count(key) != 0 || !clocks_agree_) continue;
    const auto end = token_ends_.find(key);
    if (end == token_ends_.end() || end->second < world_->now()) continue;
    world_->Violate(absl::StrCat("key ", key, " is deleted while tokens live that it has signed"));
  }
  keys_ = now;
  const auto stored = disk_->records.find(credentials::kJwtKeysHeadKey);
  pb::JwtKeysHeadRecord head;
  if (stored != disk_->records.end()) head.ParseFromString(stored->second);
  key_sets_.emplace(head.sequence(), jwks);
}

void CredentialsWitness::WalkPolicy() {
  const auto stored = disk_->records.find(credentials::kPolicyHeadKey);
  pb::PolicyHeadRecord head;
  if (stored != disk_->records.end()) head.ParseFromString(stored->second);
  if (policies_.count(head.revision()) != 0) return;
  std::set<std::string>& denied = policies_[head.revision()];
  const std::string prefix = credentials::kDenyPrefix;
  for (auto it = disk_->records.lower_bound(prefix);
       it != disk_->records.end() && absl::StartsWith(it->first, prefix); ++it) {
    pb::DenyRecord record;
    record.ParseFromString(it->second);
    denied.insert(record.spiffe_id());
  }
}

int64_t CredentialsWitness::Asked(const credentials::Event& event) {
  const int64_t ticket = next_ticket_++;
  if (const auto* back = std::get_if<credentials::DeleteDenial>(&event)) {
    taken_back_[back->spiffe_id] = ticket;
    denied_.erase(back->spiffe_id);
  }
  return ticket;
}

void CredentialsWitness::Answered(const credentials::Event& event, int64_t ticket) {
  const auto* deny = std::get_if<credentials::DenyIdentity>(&event);
  // One that was asked for before somebody asked to take it back is over.
  if (deny == nullptr || ticket < taken_back_[deny->spiffe_id]) return;
  if (chain_denied_.count(deny->spiffe_id) == 0) {
    world_->Violate(absl::StrCat("the denial of ", deny->spiffe_id,
                                 " is acknowledged and not in the audit chain"));
  }
  denied_.insert(deny->spiffe_id);
}

void CredentialsWitness::CheckPlacement(const credentials::Event& event) {
  const auto check = [this](const auto& ask) {
    if (IsPlaced(ask.task.ToString(), ask.node.ToString())) return;
    world_->Violate(absl::StrCat(ask.node.ToString(), " gets a credential of ", ask.task.ToString(),
                                 ", which was not placed on it"));
  };
  if (const auto* svid = std::get_if<credentials::IssueTaskSvid>(&event)) check(*svid);
  if (const auto* jwt = std::get_if<credentials::IssueTaskJwt>(&event)) check(*jwt);
}

void CredentialsWitness::Signed(const credentials::Event& event,
                                const credentials::IssueOrder& order) {
  CheckPlacement(event);
  // What is over is forgotten, by the wall clock.
  if (!serials_.insert(order.serial).second && clocks_agree_) {
    world_->Violate(absl::StrCat("serial ", order.serial, " is given twice"));
  }
  if (clocks_agree_ && disk_->records.count(credentials::IssuedKey(order.serial)) == 0) {
    world_->Violate(absl::StrCat("certificate ", order.serial, " is signed and not stored"));
  }
  const auto* task = std::get_if<credentials::IssueTaskSvid>(&event);
  const absl::Duration life = task != nullptr ? lives_.task_certificate : lives_.certificate;
  if (order.not_after - order.not_before > life + absl::Seconds(10)) {
    world_->Violate(absl::StrCat("certificate ", order.serial, " lives too long"));
  }
  if (task != nullptr) {
    const Certificate made{task->node.ToString(), order.not_after - life, order.not_after};
    std::vector<Certificate>& certificates = holders_[order.spiffe_id];
    for (const Certificate& other : certificates) {
      if (other.node == made.node || other.not_after <= made.decided ||
          made.not_after <= other.decided) {
        continue;
      }
      world_->Violate(absl::StrCat(made.node, " gets a certificate of ", order.spiffe_id,
                                   ", which ", other.node, " holds"));
    }
    certificates.push_back(made);
    tasks_.push_back(order.spiffe_id);
  }
  if (const auto* join = std::get_if<credentials::Join>(&event)) {
    const auto used = used_tokens_.emplace(join->token_id, join->key.spki);
    if (!used.second && used.first->second != join->key.spki) {
      world_->Violate(absl::StrCat("join token ", join->token_id, " works for a second key"));
    }
  }
}

void CredentialsWitness::Signed(const credentials::Event& event, const credentials::JwtOrder& order,
                                const std::string& key_id) {
  ++tokens_;
  CheckPlacement(event);
  if (order.expires - order.issued_at > lives_.token) {
    world_->Violate(absl::StrCat("token ", order.id, " lives too long"));
  }
  const auto stored = disk_->records.find(credentials::JwtKeyKey(key_id));
  pb::JwtKeyRecord key;
  if (stored == disk_->records.end() || !key.ParseFromString(stored->second)) {
    return world_->Violate(absl::StrCat("a token is signed by ", key_id, ", which is not stored"));
  }
  const absl::Duration life = order.expires - order.issued_at;
  token_ends_[key_id] = std::max(token_ends_[key_id], world_->now() + life);
  if (!clocks_agree_) return;
  const absl::Time active = ToTime(key.activate_time());
  const std::string prefix = credentials::kJwtKeyPrefix;
  bool first = true;
  for (auto it = disk_->records.lower_bound(prefix);
       it != disk_->records.end() && absl::StartsWith(it->first, prefix); ++it) {
    pb::JwtKeyRecord other;
    other.ParseFromString(it->second);
    if (other.algorithm() != key.algorithm() || other.key_id() == key_id) continue;
    const absl::Time since = ToTime(other.activate_time());
    if (since < active) first = false;
    if (since > active && since <= order.issued_at) {
      world_->Violate(absl::StrCat("rotated-out key ", key_id, " signs after ", other.key_id()));
    }
  }
  const absl::Time published = ToTime(key.create_time());
  if (!first && order.issued_at - published < lives_.publish_before - absl::Seconds(25)) {
    world_->Violate(absl::StrCat("key ", key_id, " signs ",
                                 absl::FormatDuration(order.issued_at - published),
                                 " after it was published"));
  }
}

void CredentialsWitness::Published(const std::string& replica, const pb::PolicySnapshot& policy) {
  Shown& shown = shown_[replica];
  if (policy.revision() < shown.policy) {
    world_->Violate(
        absl::StrCat("policy ", policy.revision(), " is published after ", shown.policy));
  }
  shown.policy = policy.revision();
  const std::set<std::string> denied(policy.denied_ids().begin(), policy.denied_ids().end());
  // One that a transaction has replaced by a later one was never to be seen in the store.
  const auto committed = policies_.lower_bound(policy.revision());
  if (committed == policies_.end() ||
      (committed->first == policy.revision() && committed->second != denied)) {
    world_->Violate(absl::StrCat("policy ", policy.revision(), " is published and not stored"));
  }
}

void CredentialsWitness::Published(const std::string& replica, const credentials::JwtKeySet& keys) {
  Shown& shown = shown_[replica];
  if (keys.sequence < shown.keys) {
    world_->Violate(absl::StrCat("keys ", keys.sequence, " are published after ", shown.keys));
  }
  shown.keys = keys.sequence;
  const std::set<std::string> jwks(keys.public_jwks.begin(), keys.public_jwks.end());
  const auto committed = key_sets_.lower_bound(keys.sequence);
  if (committed == key_sets_.end() ||
      (committed->first == keys.sequence && committed->second != jwks)) {
    world_->Violate(absl::StrCat("keys ", keys.sequence, " are published and not stored"));
  }
}

bool CredentialsWitness::AllStored(std::string* why) const {
  for (size_t i = 0; i < chain_.size(); ++i) {
    const auto stored = disk_->records.find(credentials::AuditKey(static_cast<int64_t>(i) + 1));
    if (stored != disk_->records.end() && stored->second == chain_[i]) continue;
    *why = absl::StrCat("record ", i + 1, " of the audit chain is gone");
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
