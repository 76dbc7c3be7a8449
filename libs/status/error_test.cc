#include "libs/status/error.h"

#include <cstddef>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "libs/status/status_macros.h"

namespace capstan::status {
namespace {

TEST(ErrorTest, CarriesReasonAndMetadata) {
  const absl::Status error =
      Error(absl::StatusCode::kAborted, "ETAG_MISMATCH", "stale", {{"etag", "\"7\""}});
  EXPECT_EQ(error.code(), absl::StatusCode::kAborted);
  ASSERT_TRUE(GetErrorInfo(error).has_value());
  EXPECT_EQ(GetErrorInfo(error)->domain, kDomain);
  EXPECT_EQ(GetErrorInfo(error)->metadata.at("etag"), "\"7\"");
  EXPECT_EQ(Reason(error), "ETAG_MISMATCH");
  EXPECT_EQ(Reason(absl::InternalError("plain")), "");
}

// Whatever the process: a hash table's order is not in it.
TEST(ErrorTest, MetadataLiesInOneOrder) {
  std::map<std::string, std::string> metadata;
  for (char key = 'a'; key <= 'p'; ++key) metadata[std::string(8, key)] = "value";
  const absl::Status error = Error(absl::StatusCode::kAborted, "R", "m", metadata);
  std::string bytes;
  error.ForEachPayload(
      [&](absl::string_view, const absl::Cord& payload) { bytes = std::string(payload); });
  size_t at = 0;
  for (const auto& [key, value] : metadata) {
    const size_t found = bytes.find(key);
    ASSERT_NE(found, std::string::npos);
    EXPECT_GT(found, at);
    at = found;
  }
}

TEST(ErrorTest, AnnotateKeepsPayloads) {
  const absl::Status error = WithRetryDelay(
      Error(absl::StatusCode::kResourceExhausted, "OVERLOADED", "busy"), absl::Milliseconds(1500));
  const absl::Status annotated = Annotate(error, "job 'a'");
  EXPECT_EQ(annotated.message(), "job 'a': busy");
  EXPECT_EQ(Reason(annotated), "OVERLOADED");
  EXPECT_EQ(GetRetryDelay(annotated), absl::Milliseconds(1500));
  EXPECT_TRUE(Annotate(absl::OkStatus(), "x").ok());
}

TEST(ErrorTest, ForbiddenAndAbsentReadTheSame) {
  EXPECT_EQ(
      PermissionDenied("jobs.get", "projects/a/jobs/b").message(),
      "Permission 'jobs.get' denied on resource 'projects/a/jobs/b' (or it might not exist).");
}

TEST(FieldErrorsTest, CollectsAllAndNamesTheFirst) {
  FieldErrors errors;
  EXPECT_TRUE(errors.ToStatus().ok());
  errors.Add("job.spec.priority", "is 5000; expected -1000 to 1000");
  errors.Add("job.spec.queue", "is 'x'; expected queues/{queue}");
  const absl::Status error = errors.ToStatus();
  EXPECT_EQ(error.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(error.message(), "job.spec.priority: is 5000; expected -1000 to 1000 (and 1 more)");
  EXPECT_EQ(GetFieldViolations(error), errors.violations());
}

absl::StatusOr<int> Half(int n) {
  if (n % 2 != 0) return absl::InvalidArgumentError("odd");
  return n / 2;
}

absl::StatusOr<int> Quarter(int n) {
  CAPSTAN_ASSIGN_OR_RETURN(const int half, Half(n));
  CAPSTAN_ASSIGN_OR_RETURN(const int quarter, Half(half));
  return quarter;
}

absl::Status Check(int n) {
  CAPSTAN_RETURN_IF_ERROR(Half(n).status());
  return absl::OkStatus();
}

TEST(StatusMacrosTest, PropagateTheFirstError) {
  EXPECT_EQ(*Quarter(8), 2);
  EXPECT_FALSE(Quarter(6).ok());
  EXPECT_TRUE(Check(2).ok());
  EXPECT_EQ(Check(3).message(), "odd");
}

}  // namespace
}  // namespace capstan::status
