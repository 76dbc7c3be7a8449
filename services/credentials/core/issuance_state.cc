#include "services/credentials/core/issuance_state.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/digest/sha256.h"
#include "libs/status/error.h"
#include "libs/time/proto_time.h"
#include "services/credentials/core/store_key.h"

namespace capstan::credentials {
namespace {

constexpr absl::Duration kTokenLinger = absl::Minutes(1);
constexpr absl::Duration kIssuedLinger = absl::Hours(1);
// Well below a transaction's 128 operations, audit records included.
constexpr size_t kPruneBatch = 60;

}  // namespace

void IssuanceState::Load(const v1::JoinTokenRecord& record) {
  tokens_[record.id()] = record;
  // A token that was spent at its very end still owes its holder the repeat window.
  token_ends_.insert({ToTime(record.expire_time()) + kTokenLinger + repeat_window_, record.id()});
}

void IssuanceState::Load(const v1::IssuedRecord& record) {
  Issued& issued = issued_[record.serial()];
  issued.session_start = ToTime(record.session_start_time());
  if (!record.node().empty()) {
    issued.task = record.spiffe_id();
    Holder& holder = holders_[issued.task];
    if (holder.node.empty() || ToTime(record.expire_time()) >= holder.not_after) {
      holder = {record.node(), ToTime(record.expire_time())};
    }
  }
  issued_ends_.insert({ToTime(record.expire_time()) + kIssuedLinger, record.serial()});
}

absl::Status IssuanceState::AddToken(const v1::JoinTokenRecord& record, Step* step) {
  if (tokens_.size() >= kMaxTokens) {
    return status::WithRetryDelay(
        status::Error(absl::StatusCode::kResourceExhausted, "TOO_MANY_JOIN_TOKENS",
                      absl::StrCat("There are ", kMaxTokens,
                                   " join tokens already, the most there "
                                   "may be; they leave when they expire."),
                      {{"limit", absl::StrCat(kMaxTokens)}}),
        absl::Minutes(1));
  }
  // It would make one that is spent good for another key.
  if (tokens_.count(record.id()) > 0) {
    return status::Error(absl::StatusCode::kInternal, "TOKEN_ID_REPEATED",
                         "The random source gave the id of a join token twice; none was made.");
  }
  step->puts.push_back({.key = JoinTokenKey(record.id()), .value = record.SerializeAsString()});
  Load(record);
  return absl::OkStatus();
}

std::variant<std::string, IssuanceState::Refusal> IssuanceState::Redeem(const Join& join,
                                                                        absl::Time now,
                                                                        Step* step) {
  const auto it = tokens_.find(join.token_id);
  if (it == tokens_.end()) return Refusal{"", "No such join token."};
  v1::JoinTokenRecord& token = it->second;
  const std::string resource = absl::StrCat("joinTokens/", token.id());
  if (token.secret_sha256() != join.secret_sha256) {
    return Refusal{resource, "The join token's secret is wrong."};
  }
  const std::string spki_sha256 = Sha256::Of(join.key.spki);
  if (token.has_spend_time()) {
    if (token.spki_sha256() != spki_sha256) {
      return Refusal{resource, "The join token was used again, with another key."};
    }
    // A clock that has stepped back does not open the window again for long: it is bounded by the
    // token's end, too.
    if (now - ToTime(token.spend_time()) > repeat_window_) {
      return Refusal{resource, "The join token was used again, long after its first use."};
    }
    return token.path();
  }
  if (now >= ToTime(token.expire_time())) {
    return Refusal{resource, "The join token has expired."};
  }
  *token.mutable_spend_time() = ToProto(now);
  token.set_spki_sha256(spki_sha256);
  step->puts.push_back({.key = JoinTokenKey(token.id()), .value = token.SerializeAsString()});
  return token.path();
}

absl::optional<std::string> IssuanceState::PathOfToken(const std::string& id) const {
  const auto it = tokens_.find(id);
  if (it == tokens_.end()) return absl::nullopt;
  return it->second.path();
}

absl::Status IssuanceState::CheckRoom(const std::string& serial) const {
  if (issued_.size() >= kMaxIssued) {
    return status::WithRetryDelay(
        status::Error(absl::StatusCode::kResourceExhausted, "TOO_MANY_CERTIFICATES",
                      absl::StrCat(kMaxIssued,
                                   " certificates are valid already, the most there "
                                   "may be."),
                      {{"limit", absl::StrCat(kMaxIssued)}}),
        absl::Minutes(1));
  }
  if (issued_.count(serial) > 0) {
    return status::Error(absl::StatusCode::kInternal, "SERIAL_REPEATED",
                         "The random source gave the same serial twice; nothing was issued.");
  }
  return absl::OkStatus();
}

void IssuanceState::AddIssued(const IssueOrder& order, absl::Time session_start,
                              const std::string& node, Step* step) {
  v1::IssuedRecord record;
  record.set_schema(kSchema);
  record.set_serial(order.serial);
  record.set_spiffe_id(order.spiffe_id);
  record.set_spki_sha256(Sha256::Of(order.spki));
  *record.mutable_start_time() = ToProto(order.not_before);
  *record.mutable_expire_time() = ToProto(order.not_after);
  *record.mutable_session_start_time() = ToProto(session_start);
  record.set_node(node);
  step->puts.push_back({.key = IssuedKey(order.serial), .value = record.SerializeAsString()});
  Load(record);
}

absl::optional<absl::Time> IssuanceState::SessionStart(const std::string& serial) const {
  const auto it = issued_.find(serial);
  if (it == issued_.end()) return absl::nullopt;
  return it->second.session_start;
}

absl::optional<std::string> IssuanceState::NodeOf(const std::string& task, absl::Time now) const {
  const auto it = holders_.find(task);
  if (it == holders_.end() || it->second.not_after <= now) return absl::nullopt;
  return it->second.node;
}

void IssuanceState::Prune(absl::Time now, Step* step) {
  size_t pruned = 0;
  while (pruned < kPruneBatch && !token_ends_.empty() && token_ends_.begin()->first <= now) {
    step->deletes.push_back({.key = JoinTokenKey(token_ends_.begin()->second), .end = ""});
    tokens_.erase(token_ends_.begin()->second);
    token_ends_.erase(token_ends_.begin());
    ++pruned;
  }
  while (pruned < kPruneBatch && !issued_ends_.empty() && issued_ends_.begin()->first <= now) {
    step->deletes.push_back({.key = IssuedKey(issued_ends_.begin()->second), .end = ""});
    const auto issued = issued_.find(issued_ends_.begin()->second);
    const auto holder = holders_.find(issued->second.task);
    if (holder != holders_.end() &&
        holder->second.not_after + kIssuedLinger <= issued_ends_.begin()->first) {
      holders_.erase(holder);
    }
    issued_.erase(issued);
    issued_ends_.erase(issued_ends_.begin());
    ++pruned;
  }
}

absl::Time IssuanceState::NextPrune() const {
  absl::Time next = absl::InfiniteFuture();
  if (!token_ends_.empty()) next = std::min(next, token_ends_.begin()->first);
  if (!issued_ends_.empty()) next = std::min(next, issued_ends_.begin()->first);
  return next;
}

}  // namespace capstan::credentials
