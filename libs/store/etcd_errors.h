// What etcd's errors mean, from their gRPC codes and messages (api/v3rpc/rpctypes of v3.6.8).
#ifndef CAPSTAN_LIBS_STORE_ETCD_ERRORS_H_
#define CAPSTAN_LIBS_STORE_ETCD_ERRORS_H_

#include "absl/status/status.h"

namespace capstan::store {

// UNAVAILABLE: nobody knows whether a transaction took effect. With metadata `settled` = `true` it
// will not any more if it did not yet.
inline constexpr char kReasonOutcomeUnknown[] = "OUTCOME_UNKNOWN";
// UNAVAILABLE: no member answered in time.
inline constexpr char kReasonUnreachable[] = "STORE_UNREACHABLE";
// RESOURCE_EXHAUSTED: too many calls wait.
inline constexpr char kReasonOverloaded[] = "STORE_OVERLOADED";
// FAILED_PRECONDITION: the endpoints lead to another cluster than before, or the store was restored
// since it was opened.
inline constexpr char kReasonReplaced[] = "STORE_REPLACED";
// FAILED_PRECONDITION: an etcd before 3.6.
inline constexpr char kReasonTooOld[] = "STORE_TOO_OLD";

// What is known of a call that ended with an error.
enum class EtcdOutcome {
  // It was refused, or did what it could: asking again would give the same.
  kAnswered,
  // The token is no longer good; nothing was done.
  kUnauthenticated,
  // Nothing was done, and another attempt may succeed.
  kNotExecuted,
  // It may have been carried out, or may be yet.
  kUnknown,
};

// Of an error as libs/rpc made it of etcd's. What is not recognised is kUnknown.
EtcdOutcome ClassifyEtcdError(const absl::Status& error);

// The error in the words of store.h.
absl::Status TranslateEtcdError(const absl::Status& error);

absl::Status OutcomeUnknownError(const absl::Status& last);
// The same error, once it is sure that nothing will take effect any more.
absl::Status SettledError(const absl::Status& unknown);
absl::Status UnreachableError(const absl::Status& last);
absl::Status OverloadedError(size_t waiting);

}  // namespace capstan::store

#endif  // CAPSTAN_LIBS_STORE_ETCD_ERRORS_H_
