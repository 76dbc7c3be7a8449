// What an API server refuses, as errors.
#ifndef CAPSTAN_LIBS_KUBE_CLIENT_SERVER_ERROR_H_
#define CAPSTAN_LIBS_KUBE_CLIENT_SERVER_ERROR_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "libs/kube/transport/transport.h"

namespace capstan::kube {

// Reasons (status::Reason), by the code that they come with.
// NOT_FOUND: an object.
inline constexpr char kNotFound[] = "KUBE_NOT_FOUND";
// ALREADY_EXISTS
inline constexpr char kAlreadyExists[] = "KUBE_ALREADY_EXISTS";
// ABORTED: the object has changed; other managers own fields of an apply (ApplyConflicts).
inline constexpr char kConflict[] = "KUBE_CONFLICT";
inline constexpr char kApplyConflict[] = "KUBE_APPLY_CONFLICT";
// OUT_OF_RANGE: a resource version or continue token that is too old.
inline constexpr char kExpired[] = "KUBE_EXPIRED";
// FAILED_PRECONDITION: the server lacks the API; it lacks the fields that the violations name; the
// namespace takes nothing new.
inline constexpr char kApiMissing[] = "KUBE_API_MISSING";
inline constexpr char kFieldUnknown[] = "KUBE_FIELD_UNKNOWN";
inline constexpr char kNamespaceTerminating[] = "KUBE_NAMESPACE_TERMINATING";
// INVALID_ARGUMENT, with field violations.
inline constexpr char kInvalid[] = "KUBE_INVALID";
// UNAUTHENTICATED, PERMISSION_DENIED
inline constexpr char kUnauthorized[] = "KUBE_UNAUTHORIZED";
inline constexpr char kForbidden[] = "KUBE_FORBIDDEN";
// RESOURCE_EXHAUSTED: the server sheds load; a budget allows no eviction now.
inline constexpr char kTooManyRequests[] = "KUBE_TOO_MANY_REQUESTS";
inline constexpr char kDisruptionBudget[] = "KUBE_DISRUPTION_BUDGET";
// DEADLINE_EXCEEDED: it may have been done.
inline constexpr char kServerTimeout[] = "KUBE_SERVER_TIMEOUT";
// UNIMPLEMENTED: a verb or an encoding.
inline constexpr char kUnsupported[] = "KUBE_UNSUPPORTED";
// Others: 4xx (INVALID_ARGUMENT) and 3xx (FAILED_PRECONDITION); 5xx (INTERNAL, UNAVAILABLE).
inline constexpr char kServerRefused[] = "KUBE_REFUSED";
inline constexpr char kServerFailed[] = "KUBE_FAILED";

// Bodies of errors are read so far; the rest is left.
inline constexpr size_t kMaxErrorBytes = 1 << 20;

// One converter for every response of 300 and above. The code and reason come from
// metav1.Status.reason, where the body is a Status, JSON or protobuf; else from `http_status`: a
// proxy's page is no part of the error. What the server says is kept within bounds, its causes as
// field violations. status::ErrorInfo.metadata has `http_status`, what the server names
// (`kube_reason`, `group`, `kind`, `name`), and the flow that it was shed from
// (`flow_schema_uid`, `priority_level_uid`).
absl::Status ServerError(int http_status, const std::vector<HttpHeader>& headers,
                         absl::string_view body);

// What the server said, of errors of ServerError. Where the code says all (NOT_FOUND,
// ALREADY_EXISTS), absl's own predicates do.

// 0: it is none of those.
int HttpStatusOf(const absl::Status& status);
// Somebody else was faster; kApplyConflict too.
bool IsConflict(const absl::Status& status);
bool IsExpired(const absl::Status& status);
bool IsTooManyRequests(const absl::Status& status);
// When the server wants to be asked again; at most an hour.
absl::optional<absl::Duration> RetryAfter(const absl::Status& status);

// A field that another manager owns, which an apply did not force.
struct ApplyConflict {
  std::string manager;
  // As the server writes it: `.spec.replicas`.
  std::string field;

  friend bool operator==(const ApplyConflict&, const ApplyConflict&) = default;
};
// Empty unless the reason is kApplyConflict.
std::vector<ApplyConflict> ApplyConflicts(const absl::Status& status);

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_CLIENT_SERVER_ERROR_H_
