#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_EXIT_CODE_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_EXIT_CODE_H_

#include <string>

#include "absl/status/status.h"

namespace capstan::cli {

// What scripts may rely on; `capstan help exit-codes` prints the table. Never renumbered.
enum class ExitCode {
  kOk = 0,
  // The act was carried out and ended badly: a Job that was waited for failed, a chain is broken.
  kFailed = 1,
  // The command line makes no sense.
  kUsage = 2,
  // A file or a value was refused.
  kInvalidInput = 3,
  // The thing is not there, or may not be seen or done: the two look the same on purpose.
  kNotFoundOrDenied = 4,
  // The platform, or the part that is asked, is not running or did not answer in time.
  kUnavailable = 5,
  // The state does not allow it: already there, changed meanwhile, in use.
  kConflict = 6,
  // A bound was reached: try later.
  kExhausted = 7,
  // A mistake of Capstan's own.
  kInternal = 70,
  // `serve` only: the part has no identity and was given no join token.
  kNeedsIdentity = 77,
  kInterrupted = 130,
  kTerminated = 143,
};

ExitCode ExitCodeOf(const absl::Status& status);

// The table, for people.
std::string ExitCodeHelp();

// What is printed on standard error: `error: message`, then one line for each wrong field unless
// the message already names them, and a hint for what has a well-known way out.
std::string DescribeError(const absl::Status& status);

// A Status for an act that was carried out and ended badly (ExitCode::kFailed).
absl::Status Failed(absl::string_view message);

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_EXIT_CODE_H_
