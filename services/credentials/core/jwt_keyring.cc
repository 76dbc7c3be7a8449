#include "services/credentials/core/jwt_keyring.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "libs/time/proto_time.h"
#include "services/credentials/core/store_key.h"

namespace capstan::credentials {

void JwtKeyring::Load(const v1::JwtKeyRecord& record) {
  lines_[record.algorithm()].insert_or_assign({ToTime(record.activate_time()), record.key_id()},
                                              record);
  making_.erase(record.algorithm());
  retry_.erase(record.algorithm());
}

void JwtKeyring::Restore(Unstored unstored) {
  making_ = std::move(unstored.making);
  retry_ = std::move(unstored.retry);
}

const v1::JwtKeyRecord* JwtKeyring::Signer(const std::string& algorithm, absl::Time now) const {
  const auto found = lines_.find(algorithm);
  if (found == lines_.end() || found->second.empty()) return nullptr;
  const Line& line = found->second;
  const v1::JwtKeyRecord* signer = &line.begin()->second;
  for (const auto& [order, key] : line) {
    if (order.first <= now) signer = &key;
  }
  return signer;
}

absl::Time JwtKeyring::WantedTime(const std::string& algorithm) const {
  const auto line = lines_.find(algorithm);
  if (line == lines_.end() || line->second.empty()) return absl::InfinitePast();
  return line->second.rbegin()->first.first + config_.rotate_after - config_.publish_before;
}

bool JwtKeyring::Wants(const std::string& algorithm, absl::Time now) const {
  return WantedTime(algorithm) <= now;
}

absl::Time JwtKeyring::DueTime(const std::string& algorithm) const {
  if (making_.count(algorithm) > 0) return absl::InfiniteFuture();
  const absl::Time due = WantedTime(algorithm);
  const auto retry = retry_.find(algorithm);
  return retry == retry_.end() ? due : std::max(due, retry->second);
}

std::vector<std::string> JwtKeyring::TakeDue(absl::Time now) {
  std::vector<std::string> due;
  for (const char* algorithm : kJwtAlgorithms) {
    if (DueTime(algorithm) > now) continue;
    making_.insert(algorithm);
    due.push_back(algorithm);
  }
  return due;
}

void JwtKeyring::Failed(const std::string& algorithm, absl::Time now) {
  making_.erase(algorithm);
  retry_[algorithm] = now + kRetry;
}

void JwtKeyring::Add(v1::JwtKeyRecord record, absl::Time now, Step* step) {
  making_.erase(record.algorithm());
  retry_.erase(record.algorithm());
  absl::Time activate = now;
  const Line& line = lines_[record.algorithm()];
  if (!line.empty()) {
    // Nobody knows the key yet, however long it took to make it.
    activate =
        std::max(now + config_.publish_before, line.rbegin()->first.first + config_.rotate_after);
  }
  record.set_schema(kSchema);
  *record.mutable_create_time() = ToProto(now);
  *record.mutable_activate_time() = ToProto(activate);
  step->puts.push_back({.key = JwtKeyKey(record.key_id()), .value = record.SerializeAsString()});
  Load(record);
  StoreHead(step);
}

absl::Time JwtKeyring::PruneTime(const Line& line) const {
  if (line.size() < 2) return absl::InfiniteFuture();
  // The next one has signed for so long that all tokens of the first are dead.
  return std::next(line.begin())->first.first + config_.max_token_ttl + kLinger;
}

bool JwtKeyring::Prune(absl::Time now, Step* step) {
  bool pruned = false;
  for (auto& [algorithm, line] : lines_) {
    while (PruneTime(line) <= now) {
      step->deletes.push_back({.key = JwtKeyKey(line.begin()->second.key_id()), .end = ""});
      line.erase(line.begin());
      pruned = true;
    }
  }
  if (pruned) StoreHead(step);
  return pruned;
}

absl::Time JwtKeyring::NextChange() const {
  absl::Time next = absl::InfiniteFuture();
  for (const char* algorithm : kJwtAlgorithms) {
    const absl::Time due = DueTime(algorithm);
    // Before the first look nothing waits: it comes with the beginning of a term.
    if (due > absl::InfinitePast()) next = std::min(next, due);
  }
  for (const auto& [algorithm, line] : lines_) next = std::min(next, PruneTime(line));
  return next;
}

std::vector<v1::JwtKeyRecord> JwtKeyring::keys() const {
  std::vector<v1::JwtKeyRecord> keys;
  for (const auto& [algorithm, line] : lines_) {
    for (const auto& [order, key] : line) keys.push_back(key);
  }
  return keys;
}

JwtKeySet JwtKeyring::Published() const {
  JwtKeySet set;
  set.sequence = sequence_;
  // A quarter of the time that a key is known before it signs, so that one who misses some still
  // learns of it in time.
  set.refresh_hint =
      std::min(absl::Minutes(5), std::max(absl::Seconds(1), config_.publish_before / 4));
  for (const auto& [algorithm, line] : lines_) {
    for (const auto& [order, key] : line) set.public_jwks.push_back(key.public_jwk());
  }
  return set;
}

void JwtKeyring::StoreHead(Step* step) {
  v1::JwtKeysHeadRecord head;
  head.set_schema(kSchema);
  head.set_sequence(++sequence_);
  // A step names a key once, also if it adds and prunes.
  for (store::Put& put : step->puts) {
    if (put.key != kJwtKeysHeadKey) continue;
    put.value = head.SerializeAsString();
    return;
  }
  step->puts.push_back({.key = kJwtKeysHeadKey, .value = head.SerializeAsString()});
}

}  // namespace capstan::credentials
