#ifndef CAPSTAN_LIBS_AUDIT_AUDIT_SINK_H_
#define CAPSTAN_LIBS_AUDIT_AUDIT_SINK_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace capstan::audit {

// One act or refusal, as its maker knows it; the log adds time, sequence and hash.
struct AuditEntry {
  // SPIFFE id of who acted; `anonymous` if none.
  std::string principal;
  // Full method or act, e.g. `/capstan.credentials.v1.JoinService/Join`.
  std::string act;
  // Resource name concerned; may be empty.
  std::string resource;
  // Canonical code of the outcome, 0 for success.
  int outcome_code = 0;
  // One sentence, without secrets.
  std::string message;
  // Times the same refusal was repeated within the window that this record closes.
  int64_t repeats = 0;

  friend bool operator==(const AuditEntry&, const AuditEntry&) = default;
};

// Where acts are recorded. Thread-safe.
class AuditSink {
 public:
  virtual ~AuditSink() = default;

  // Returns OK once the record is durable. After an error the act must not happen.
  virtual absl::Status Record(const AuditEntry& entry) = 0;
};

}  // namespace capstan::audit

#endif  // CAPSTAN_LIBS_AUDIT_AUDIT_SINK_H_
