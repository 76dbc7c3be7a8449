// Propagation of absl::Status.
#ifndef CAPSTAN_LIBS_STATUS_STATUS_MACROS_H_
#define CAPSTAN_LIBS_STATUS_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Returns the status of `expr` from the enclosing function unless it is OK.
#define CAPSTAN_RETURN_IF_ERROR(expr)                  \
  do {                                                 \
    ::absl::Status capstan_status_ = (expr);           \
    if (!capstan_status_.ok()) return capstan_status_; \
  } while (false)

// Declares or assigns `lhs` from the value of the StatusOr `expr`, or returns its status.
#define CAPSTAN_ASSIGN_OR_RETURN(lhs, expr) \
  CAPSTAN_ASSIGN_OR_RETURN_(CAPSTAN_CONCAT_(capstan_statusor_, __LINE__), lhs, expr)

#define CAPSTAN_CONCAT_INNER_(a, b) a##b
#define CAPSTAN_CONCAT_(a, b) CAPSTAN_CONCAT_INNER_(a, b)
#define CAPSTAN_ASSIGN_OR_RETURN_(statusor, lhs, expr)     \
  auto statusor = (expr);                                  \
  if (!statusor.ok()) return std::move(statusor).status(); \
  lhs = std::move(statusor).value()

#endif  // CAPSTAN_LIBS_STATUS_STATUS_MACROS_H_
