#include "tools/capstan/cli/exit_code.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "libs/status/error.h"

namespace capstan::cli {
namespace {

constexpr char kReasonFailed[] = "ENDED_BADLY";
// Of libs/auth/join.h.
constexpr char kReasonNoIdentity[] = "NO_IDENTITY";
// Of libs/config/proto_reader.h and of submit files: a file named on the command line.
constexpr char kReasonFileNotReadable[] = "FILE_NOT_READABLE";

struct Row {
  ExitCode code;
  const char* meaning;
};

constexpr Row kTable[] = {
    {ExitCode::kOk, "done"},
    {ExitCode::kFailed, "done, and it ended badly: a Job that was waited for failed"},
    {ExitCode::kUsage, "the command line makes no sense"},
    {ExitCode::kInvalidInput, "a file or a value was refused; the message says where"},
    {ExitCode::kNotFoundOrDenied, "not there, or not permitted (the two look the same)"},
    {ExitCode::kUnavailable, "the platform is not running or did not answer in time"},
    {ExitCode::kConflict, "the state does not allow it: already there, changed, in use"},
    {ExitCode::kExhausted, "a bound was reached; try later"},
    {ExitCode::kInternal, "a mistake of Capstan's own"},
    {ExitCode::kNeedsIdentity, "a part has no identity and was given no join token"},
    {ExitCode::kInterrupted, "interrupted (Ctrl-C)"},
    {ExitCode::kTerminated, "terminated (SIGTERM)"},
};

}  // namespace

ExitCode ExitCodeOf(const absl::Status& status) {
  if (status::Reason(status) == kReasonFailed) return ExitCode::kFailed;
  if (status::Reason(status) == kReasonNoIdentity) return ExitCode::kNeedsIdentity;
  if (status::Reason(status) == kReasonFileNotReadable) return ExitCode::kInvalidInput;
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return ExitCode::kOk;
    case absl::StatusCode::kCancelled:
      return ExitCode::kInterrupted;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
      return ExitCode::kInvalidInput;
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
      return ExitCode::kNotFoundOrDenied;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
      return ExitCode::kUnavailable;
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kFailedPrecondition:
      return ExitCode::kConflict;
    case absl::StatusCode::kResourceExhausted:
      return ExitCode::kExhausted;
    default:
      return ExitCode::kInternal;
  }
}

std::string ExitCodeHelp() {
  std::string out = "Exit codes:\n";
  for (const Row& row : kTable) {
    absl::StrAppendFormat(&out, "  %3d  %s\n", static_cast<int>(row.code), row.meaning);
  }
  return out;
}

std::string DescribeError(const absl::Status& status) {
  const absl::string_view message(status.message().data(), status.message().size());
  std::string out = absl::StrCat("error: ", message, "\n");
  for (const status::FieldViolation& violation : status::GetFieldViolations(status)) {
    if (absl::StrContains(message, violation.description)) continue;
    absl::StrAppend(&out, "  ", violation.field, ": ", violation.description, "\n");
  }
  const absl::optional<absl::Duration> delay = status::GetRetryDelay(status);
  if (delay.has_value()) {
    absl::StrAppend(&out, "  try again in ", absl::FormatDuration(*delay), "\n");
  }
  return out;
}

absl::Status Failed(absl::string_view message) {
  return status::Error(absl::StatusCode::kFailedPrecondition, kReasonFailed, message);
}

}  // namespace capstan::cli
