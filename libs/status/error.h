// Errors with typed details. Inside Capstan an error is an absl::Status whose payloads are the
// standard messages of google.rpc, by their type URL; libs/rpc carries them over the wire and back.
#ifndef CAPSTAN_LIBS_STATUS_ERROR_H_
#define CAPSTAN_LIBS_STATUS_ERROR_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"

namespace capstan::status {

// Domain of every ErrorInfo that Capstan makes.
inline constexpr char kDomain[] = "capstan.dev";

// The machine-readable part of an error (google.rpc.ErrorInfo, AIP-193).
struct ErrorInfo {
  // UPPER_SNAKE_CASE, at most 63 characters; stable, programs branch on it.
  std::string reason;
  std::string domain = kDomain;
  // Every dynamic word of the message, by name.
  std::map<std::string, std::string> metadata;
};

// One wrong field of a request (google.rpc.BadRequest.FieldViolation).
struct FieldViolation {
  // Path from the request's root, e.g. `job.spec.task_groups[0].replicas`.
  std::string field;
  // What was found, what was expected, what to do.
  std::string description;

  friend bool operator==(const FieldViolation&, const FieldViolation&) = default;
};

// Makes an error that carries an ErrorInfo of Capstan's domain.
absl::Status Error(absl::StatusCode code, absl::string_view reason, absl::string_view message,
                   std::map<std::string, std::string> metadata = {});

// Returns the ErrorInfo, if the status carries one.
absl::optional<ErrorInfo> GetErrorInfo(const absl::Status& status);
// Returns the reason of the ErrorInfo, or "" if there is none.
std::string Reason(const absl::Status& status);

// RESOURCE_EXHAUSTED or UNAVAILABLE with the delay after which a retry makes sense
// (google.rpc.RetryInfo).
absl::Status WithRetryDelay(absl::Status status, absl::Duration delay);
absl::optional<absl::Duration> GetRetryDelay(const absl::Status& status);

std::vector<FieldViolation> GetFieldViolations(const absl::Status& status);

// Puts "`context`: " before the message and keeps code and payloads. OK stays OK.
absl::Status Annotate(const absl::Status& status, absl::string_view context);

// The same for who may not see and for what is not there (AIP-211).
absl::Status PermissionDenied(absl::string_view permission, absl::string_view resource);
absl::Status NotFound(absl::string_view resource);

// Collects everything that is wrong with a request, so that a user mends it in one go.
class FieldErrors {
 public:
  void Add(absl::string_view field, absl::string_view description);
  bool ok() const { return violations_.empty(); }
  const std::vector<FieldViolation>& violations() const { return violations_; }
  // OK if nothing was added; else INVALID_ARGUMENT with reason INVALID_FIELD, the violations, and
  // a message that names the first one.
  absl::Status ToStatus() const;

 private:
  std::vector<FieldViolation> violations_;
};

}  // namespace capstan::status

#endif  // CAPSTAN_LIBS_STATUS_ERROR_H_
