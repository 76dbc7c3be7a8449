// What a Kubernetes API server answers instead of an object: metav1.Status with a code of HTTP.
// Texts are those of k8s.io/apimachinery/pkg/api/errors, as of 1.36.
#ifndef CAPSTAN_LIBS_KUBE_TESTING_API_ERROR_H_
#define CAPSTAN_LIBS_KUBE_TESTING_API_ERROR_H_

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/kube/objects/resource_type.h"
#include "libs/kube/testing/json.h"

namespace capstan::kube::testing {

// metav1.StatusCause.
struct Cause {
  std::string reason;
  std::string message;
  std::string field;
};

struct ApiError {
  int code = 500;
  // metav1.StatusReason; empty: unknown.
  std::string reason;
  std::string message;
  // metav1.StatusDetails; null: none.
  Json details;
  // Of metadata.continue, which a 410 for a list's page gives.
  std::string continue_token;
};

// The body.
Json ToStatus(const ApiError& error);
// A body that reports success; `details` may be null.
Json SuccessStatus(Json details = nullptr);

// `pods`, `deployments.apps`.
std::string QualifiedResource(const ResourceType& type);

ApiError NotFound(const ResourceType& type, absl::string_view name);
ApiError AlreadyExists(const ResourceType& type, absl::string_view name);
// `why` follows "Operation cannot be fulfilled on …: ".
ApiError Conflict(const ResourceType& type, absl::string_view name, absl::string_view why);
// Of optimistic concurrency.
ApiError Modified(const ResourceType& type, absl::string_view name);
ApiError Forbidden(const ResourceType& type, absl::string_view name, absl::string_view why,
                   const std::vector<Cause>& causes = {});
ApiError BadRequest(absl::string_view message);
// 422. `kind` is qualified, `Deployment.apps`; a cause's message begins with what is wrong.
ApiError Invalid(absl::string_view kind, absl::string_view group, absl::string_view name,
                 const std::vector<Cause>& causes);
ApiError Invalid(const ResourceType& type, absl::string_view name,
                 const std::vector<Cause>& causes);
// 410, reason Expired.
ApiError Expired(absl::string_view message);
// Retry-After counts whole seconds; zero: without.
ApiError TooManyRequests(absl::string_view message, absl::Duration retry_after,
                         const std::vector<Cause>& causes = {});
// 504: the revision has not come yet.
ApiError TooLargeResourceVersion(int64_t asked, int64_t current);
ApiError MethodNotSupported(absl::string_view verb, const ResourceType& type);
ApiError UnsupportedMediaType(absl::string_view accepted);
ApiError NotAcceptable(absl::string_view accepted);
// For any code, with the reason that belongs to it: what faults are answered with.
ApiError Plain(int code, absl::string_view message,
               absl::Duration retry_after = absl::ZeroDuration());

// Causes of a 422.
Cause Required(absl::string_view field, absl::string_view detail);
Cause InvalidValue(absl::string_view field, absl::string_view value, absl::string_view detail);
Cause ForbiddenField(absl::string_view field, absl::string_view detail);

// A value or an ApiError.
template <typename T>
class ApiOr {
 public:
  ApiOr(T value) : either_(std::move(value)) {}         // NOLINT(google-explicit-constructor)
  ApiOr(ApiError error) : either_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return either_.index() == 0; }
  const ApiError& error() const { return std::get<1>(either_); }
  T& operator*() { return std::get<0>(either_); }
  const T& operator*() const { return std::get<0>(either_); }
  T* operator->() { return &std::get<0>(either_); }
  const T* operator->() const { return &std::get<0>(either_); }

 private:
  std::variant<T, ApiError> either_;
};

}  // namespace capstan::kube::testing

#define CAPSTAN_API_ASSIGN_OR_RETURN(lhs, expr) \
  CAPSTAN_API_ASSIGN_OR_RETURN_(CAPSTAN_API_CONCAT_(capstan_api_or_, __LINE__), lhs, expr)
#define CAPSTAN_API_CONCAT_INNER_(a, b) a##b
#define CAPSTAN_API_CONCAT_(a, b) CAPSTAN_API_CONCAT_INNER_(a, b)
#define CAPSTAN_API_ASSIGN_OR_RETURN_(either, lhs, expr) \
  auto either = (expr);                                  \
  if (!either.ok()) return either.error();               \
  lhs = std::move(*either)

#endif  // CAPSTAN_LIBS_KUBE_TESTING_API_ERROR_H_
