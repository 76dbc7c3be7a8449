#include "libs/store/etcd_errors.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/status/error.h"
#include "libs/store/store.h"

namespace capstan::store {
namespace {

constexpr char kCompacted[] = "required revision has been compacted";
constexpr char kFuture[] = "required revision is a future revision";
constexpr char kNoSpace[] = "database space exceeded";
constexpr char kLeaseNotFound[] = "requested lease not found";

bool Says(const absl::Status& error, absl::string_view words) {
  return absl::StrContains(error.message(), words);
}

}  // namespace

EtcdOutcome ClassifyEtcdError(const absl::Status& error) {
  switch (error.code()) {
    case absl::StatusCode::kUnauthenticated:
      return EtcdOutcome::kUnauthenticated;
    case absl::StatusCode::kInvalidArgument:
      // A token that was made before the rights last changed, and no token at all.
      return Says(error, "revision of auth store is old") || Says(error, "user name is empty")
                 ? EtcdOutcome::kUnauthenticated
                 : EtcdOutcome::kAnswered;
    case absl::StatusCode::kResourceExhausted:
      if (Says(error, kNoSpace)) return EtcdOutcome::kAnswered;
      return Says(error, "too many requests") ? EtcdOutcome::kNotExecuted : EtcdOutcome::kUnknown;
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kUnimplemented:
      return EtcdOutcome::kAnswered;
    case absl::StatusCode::kUnavailable:
      // The first is said before a request is looked at, the second by our own gRPC.
      return Says(error, "etcdserver: no leader") ||
                     Says(error, "failed to connect to all addresses")
                 ? EtcdOutcome::kNotExecuted
                 : EtcdOutcome::kUnknown;
    default:
      return EtcdOutcome::kUnknown;
  }
}

absl::Status TranslateEtcdError(const absl::Status& error) {
  using Code = absl::StatusCode;
  if (Says(error, kCompacted)) {
    return status::Error(Code::kOutOfRange, kReasonCompacted, error.message());
  }
  if (Says(error, kFuture)) {
    return status::Error(Code::kOutOfRange, kReasonFuture, error.message());
  }
  if (Says(error, kNoSpace)) {
    return status::Error(Code::kResourceExhausted, kReasonNoSpace,
                         "no space left for the store: etcd's quota is used up");
  }
  if (Says(error, kLeaseNotFound)) {
    return status::Error(Code::kNotFound, kReasonNoLease, error.message());
  }
  if (Says(error, "authentication failed")) {
    return absl::UnauthenticatedError("etcd does not take the store's user and password");
  }
  return error;
}

absl::Status OutcomeUnknownError(const absl::Status& last) {
  return status::Error(
      absl::StatusCode::kUnavailable, kReasonOutcomeUnknown,
      absl::StrCat("whether the transaction took effect is not known: ", last.message()),
      {{"settled", "false"}});
}

absl::Status SettledError(const absl::Status& unknown) {
  return status::Error(unknown.code(), kReasonOutcomeUnknown, unknown.message(),
                       {{"settled", "true"}});
}

absl::Status UnreachableError(const absl::Status& last) {
  return status::Error(absl::StatusCode::kUnavailable, kReasonUnreachable,
                       absl::StrCat("etcd cannot be reached: ", last.message()));
}

absl::Status OverloadedError(size_t waiting) {
  return status::WithRetryDelay(
      status::Error(absl::StatusCode::kResourceExhausted, kReasonOverloaded,
                    absl::StrCat(waiting, " calls are waiting for the store"),
                    {{"waiting", absl::StrCat(waiting)}}),
      absl::Seconds(1));
}

}  // namespace capstan::store
