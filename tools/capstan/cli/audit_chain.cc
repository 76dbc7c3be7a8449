#include "tools/capstan/cli/audit_chain.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "libs/digest/sha256.h"

namespace capstan::cli {

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
  return record;
}

}  // namespace capstan::cli
