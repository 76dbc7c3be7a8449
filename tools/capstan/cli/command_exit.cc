#include "tools/capstan/cli/command_exit.h"

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace capstan::cli {
namespace {

constexpr char kPayload[] = "capstan.dev/command-exit";

}  // namespace

absl::Status CommandExit(int exit_code) {
  if (exit_code == 0) return absl::OkStatus();
  absl::Status status = absl::AbortedError(absl::StrCat("the command exited with ", exit_code));
  status.SetPayload(kPayload, absl::Cord(absl::StrCat(exit_code)));
  return status;
}

absl::optional<int> CommandExitCode(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kPayload);
  int code = 0;
  if (!payload.has_value() || !absl::SimpleAtoi(std::string(*payload), &code)) return absl::nullopt;
  return code;
}

}  // namespace capstan::cli
