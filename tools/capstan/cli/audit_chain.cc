#include "tools/capstan/cli/audit_chain.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "libs/digest/sha256.h"

namespace capstan::cli {

void AuditChain::Expect(int64_t sequence, std::string hash, std::string whose) {
  expected_.emplace(sequence, Expected{std::move(hash), std::move(whose)});
}

absl::StatusOr<event::v1::AuditRecord> AuditChain::Append(const std::string& stored) {
  event::v1::AuditRecord record;
  const int64_t expected = sequence_ + 1;
  if (!record.ParseFromString(stored)) {
    return absl::DataLossError(absl::StrCat("record ", expected, " is no audit record"));
  }
  if (record.sequence() != expected) {
    return absl::DataLossError(
        absl::StrCat("record ", expected, " is missing: found ", record.sequence()));
  }
  if (record.previous_hash() != hash_) {
    return absl::DataLossError(
        absl::StrCat("record ", expected, " does not follow from record ", sequence_));
  }
  sequence_ = expected;
  hash_ = Sha256::Of(stored);
  const auto [from, to] = expected_.equal_range(sequence_);
  for (auto it = from; it != to; ++it) {
    if (it->second.hash == hash_) continue;
    return absl::DataLossError(
        absl::StrCat("record ", sequence_, " does not hash to what ", it->second.whose, " says"));
  }
  expected_.erase(from, to);
  return record;
}

absl::Status AuditChain::End() const {
  if (expected_.empty()) return absl::OkStatus();
  const auto& [sequence, missing] = *expected_.rbegin();
  return absl::DataLossError(absl::StrCat("the chain ends at record ", sequence_, ", but ",
                                          missing.whose, " is of record ", sequence));
}

}  // namespace capstan::cli
