#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_AUDIT_CHAIN_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_AUDIT_CHAIN_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/capstan/event/v1/audit.pb.h"

namespace capstan::cli {

// Follows a hash chain of audit records from its first: sequences without gaps, each record naming
// the SHA-256 of the one before as it was stored.
class AuditChain {
 public:
  // Record `sequence` must be there and hash to `hash`; `whose` says, for the error, who says so.
  // To be called before that record is appended.
  void Expect(int64_t sequence, std::string hash, std::string whose);

  // The next record, as stored. DATA_LOSS, saying what does not fit, if it is not the next one or
  // not the expected one.
  absl::StatusOr<event::v1::AuditRecord> Append(const std::string& stored);

  // After the last record: DATA_LOSS if an expected one has not come.
  absl::Status End() const;

  // Of the newest record; 0 if there is none.
  int64_t sequence() const { return sequence_; }
  // SHA-256 of the newest record; 32 zero bytes if there is none.
  const std::string& hash() const { return hash_; }

 private:
  struct Expected {
    std::string hash;
    std::string whose;
  };

  // By sequence, those that have not come.
  std::multimap<int64_t, Expected> expected_;
  int64_t sequence_ = 0;
  std::string hash_ = std::string(32, '\0');
};

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_AUDIT_CHAIN_H_
