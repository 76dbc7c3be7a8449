#include "tools/capstan/cli/exit_code.h"

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "libs/status/error.h"

namespace capstan::cli {
namespace {

TEST(ExitCodeTest, FollowsTheTable) {
  EXPECT_EQ(ExitCodeOf(absl::OkStatus()), ExitCode::kOk);
  EXPECT_EQ(ExitCodeOf(Failed("the Job failed")), ExitCode::kFailed);
  EXPECT_EQ(ExitCodeOf(absl::InvalidArgumentError("")), ExitCode::kInvalidInput);
  EXPECT_EQ(ExitCodeOf(absl::NotFoundError("")), ExitCode::kNotFoundOrDenied);
  EXPECT_EQ(ExitCodeOf(absl::PermissionDeniedError("")), ExitCode::kNotFoundOrDenied);
  EXPECT_EQ(ExitCodeOf(absl::UnavailableError("")), ExitCode::kUnavailable);
  EXPECT_EQ(ExitCodeOf(absl::DeadlineExceededError("")), ExitCode::kUnavailable);
  EXPECT_EQ(ExitCodeOf(absl::AlreadyExistsError("")), ExitCode::kConflict);
  EXPECT_EQ(ExitCodeOf(absl::FailedPreconditionError("")), ExitCode::kConflict);
  EXPECT_EQ(ExitCodeOf(absl::ResourceExhaustedError("")), ExitCode::kExhausted);
  EXPECT_EQ(ExitCodeOf(absl::InternalError("")), ExitCode::kInternal);
  EXPECT_EQ(ExitCodeOf(absl::CancelledError("")), ExitCode::kInterrupted);
  EXPECT_EQ(ExitCodeOf(status::Error(absl::StatusCode::kNotFound, "FILE_NOT_READABLE", "")),
            ExitCode::kInvalidInput);
  EXPECT_EQ(ExitCodeOf(status::Error(absl::StatusCode::kUnauthenticated, "NO_IDENTITY", "")),
            ExitCode::kNeedsIdentity);
}

TEST(ExitCodeTest, HelpNamesEveryCode) {
  for (const char* code : {"  0  ", "  1  ", "  2  ", "  3  ", "  4  ", "  5  ", "  6  ", "  7  ",
                           " 70  ", " 77  ", "130  ", "143  "}) {
    EXPECT_TRUE(absl::StrContains(ExitCodeHelp(), code)) << code;
  }
}

TEST(ExitCodeTest, ErrorsShowViolationsThatTheMessageLeavesOut) {
  status::FieldErrors errors;
  errors.Add("spec.queue", "is not there");
  errors.Add("spec.priority", "must be at most 1000");
  const std::string text = DescribeError(errors.ToStatus());
  EXPECT_TRUE(absl::StrContains(text, "is not there")) << text;
  EXPECT_TRUE(absl::StrContains(text, "  spec.priority: must be at most 1000\n")) << text;
  EXPECT_TRUE(absl::StrContains(
      DescribeError(status::WithRetryDelay(absl::ResourceExhaustedError("full"), absl::Seconds(3))),
      "try again in 3s"));
}

}  // namespace
}  // namespace capstan::cli
