#include "libs/kube/client/server_error.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "gtest/gtest.h"
#include "libs/kube/objects/proto/meta_v1.pb.h"
#include "libs/kube/objects/protobuf_envelope.h"
#include "libs/status/error.h"

namespace capstan::kube {
namespace {

using absl::StatusCode;

std::string Body(int code, const std::string& reason, const std::string& message,
                 const std::string& details = R"({"name":"a","kind":"pods"})") {
  return absl::StrCat(R"({"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",)",
                      R"("message":")", message, R"(","reason":")", reason, R"(","details":)",
                      details, R"(,"code":)", code, "}");
}

struct Case {
  int http;
  const char* kube;
  StatusCode code;
  const char* reason;
};

TEST(ServerErrorTest, MapsEveryReason) {
  const Case cases[] = {
      {400, "BadRequest", StatusCode::kInvalidArgument, kServerRefused},
      {401, "Unauthorized", StatusCode::kUnauthenticated, kUnauthorized},
      {403, "Forbidden", StatusCode::kPermissionDenied, kForbidden},
      {404, "NotFound", StatusCode::kNotFound, kNotFound},
      {405, "MethodNotAllowed", StatusCode::kUnimplemented, kUnsupported},
      {406, "NotAcceptable", StatusCode::kUnimplemented, kUnsupported},
      {409, "Conflict", StatusCode::kAborted, kConflict},
      {409, "AlreadyExists", StatusCode::kAlreadyExists, kAlreadyExists},
      {410, "Expired", StatusCode::kOutOfRange, kExpired},
      {410, "Gone", StatusCode::kOutOfRange, kExpired},
      {413, "RequestEntityTooLarge", StatusCode::kInvalidArgument, kServerRefused},
      {415, "UnsupportedMediaType", StatusCode::kUnimplemented, kUnsupported},
      {422, "Invalid", StatusCode::kInvalidArgument, kInvalid},
      {429, "TooManyRequests", StatusCode::kResourceExhausted, kTooManyRequests},
      {500, "InternalError", StatusCode::kInternal, kServerFailed},
      {500, "ServerTimeout", StatusCode::kUnavailable, kServerFailed},
      {500, "StorageReadError", StatusCode::kInternal, kServerFailed},
      {503, "ServiceUnavailable", StatusCode::kUnavailable, kServerFailed},
      {504, "Timeout", StatusCode::kDeadlineExceeded, kServerTimeout},
      // The reason counts more than the status.
      {500, "AlreadyExists", StatusCode::kAlreadyExists, kAlreadyExists},
      // Unknown ones count by status.
      {409, "Brandnew", StatusCode::kAborted, kConflict},
      {418, "Brandnew", StatusCode::kInvalidArgument, kServerRefused},
      {507, "", StatusCode::kInternal, kServerFailed},
      {503, "", StatusCode::kUnavailable, kServerFailed},
  };
  for (const Case& c : cases) {
    const absl::Status status = ServerError(c.http, {}, Body(c.http, c.kube, "the words"));
    EXPECT_EQ(status.code(), c.code) << c.http << c.kube;
    EXPECT_EQ(status::Reason(status), c.reason) << c.http << c.kube;
    EXPECT_EQ(HttpStatusOf(status), c.http);
    EXPECT_TRUE(absl::StrContains(status.message(), "the words"));
    const auto metadata = status::GetErrorInfo(status)->metadata;
    EXPECT_EQ(metadata.at("name"), "a");
    EXPECT_EQ(metadata.at("kind"), "pods");
    EXPECT_EQ(metadata.count("kube_reason") != 0, c.kube[0] != '\0');
  }
}

TEST(ServerErrorTest, MapsByHttpWhereNoStatusCame) {
  const Case cases[] = {
      {301, "", StatusCode::kFailedPrecondition, kServerRefused},
      {401, "", StatusCode::kUnauthenticated, kUnauthorized},
      {403, "", StatusCode::kPermissionDenied, kForbidden},
      {404, "", StatusCode::kFailedPrecondition, kApiMissing},
      {409, "", StatusCode::kAborted, kConflict},
      {410, "", StatusCode::kOutOfRange, kExpired},
      {429, "", StatusCode::kResourceExhausted, kTooManyRequests},
      {500, "", StatusCode::kInternal, kServerFailed},
      {502, "", StatusCode::kUnavailable, kServerFailed},
      {504, "", StatusCode::kDeadlineExceeded, kServerTimeout},
      {599, "", StatusCode::kInternal, kServerFailed},
  };
  const std::vector<std::string> bodies = {
      "",
      "<html><body>sesame</body></html>",
      "404 page not found\n",
      "{\"error\":\"sesame\"}",
      "{\"kind\":\"Status\",\"status\":\"Success\"}",
      "[1]",
      "{",
      std::string("k8s\0\xff", 5),
      std::string(100000, '['),
      std::string(100000, '{'),
  };
  for (const Case& c : cases) {
    for (const std::string& body : bodies) {
      const absl::Status status = ServerError(c.http, {}, body);
      EXPECT_EQ(status.code(), c.code) << c.http;
      EXPECT_EQ(status::Reason(status), c.reason) << c.http;
      EXPECT_FALSE(absl::StrContains(status.message(), "sesame"));
    }
  }
}

TEST(ServerErrorTest, TellsAnAbsentObjectFromAnAbsentApi) {
  EXPECT_TRUE(
      absl::IsNotFound(ServerError(404, {}, Body(404, "NotFound", "pods \\\"a\\\" not found"))));
  const absl::Status api = ServerError(
      404, {}, Body(404, "NotFound", "the server could not find the requested resource", "{}"));
  EXPECT_FALSE(absl::IsNotFound(api));
  EXPECT_EQ(api.code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(status::Reason(api), kApiMissing);
}

TEST(ServerErrorTest, GivesCausesAsFieldViolations) {
  const absl::Status status = ServerError(
      422, {},
      Body(422, "Invalid", "Pod is invalid",
           R"({"name":"a","causes":[{"reason":"FieldValueRequired","message":"Required value",)"
           R"("field":"spec.containers"},{"reason":"Other","message":"of the whole"}]})"));
  EXPECT_EQ(status::GetFieldViolations(status),
            (std::vector<status::FieldViolation>{{"spec.containers", "Required value"}}));
}

TEST(ServerErrorTest, NamesFieldsThatTheServerLacks) {
  const absl::Status strict = ServerError(
      400, {},
      Body(400, "BadRequest",
           R"(strict decoding error: unknown field \"spec.a\", unknown field \"spec.b\")", "{}"));
  EXPECT_EQ(strict.code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(status::Reason(strict), kFieldUnknown);
  const auto violations = status::GetFieldViolations(strict);
  ASSERT_EQ(violations.size(), 2u);
  EXPECT_EQ(violations[0].field, "spec.a");
  EXPECT_EQ(violations[1].field, "spec.b");
  EXPECT_EQ(status::Reason(
                ServerError(500, {},
                            Body(500, "",
                                 "failed to create typed patch object: .spec.a: field not declared "
                                 "in schema"))),
            kFieldUnknown);
}

TEST(ServerErrorTest, KnowsCausesThatHaveAMeaning) {
  const absl::Status terminating = ServerError(
      403, {},
      Body(403, "Forbidden", "x",
           R"({"name":"a","causes":[{"reason":"NamespaceTerminating","message":"namespace a is )"
           R"(being terminated","field":"metadata.namespace"}]})"));
  EXPECT_EQ(terminating.code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(status::Reason(terminating), kNamespaceTerminating);
  const absl::Status budget = ServerError(
      429, {},
      Body(429, "TooManyRequests", "Cannot evict pod",
           R"({"name":"a","causes":[{"reason":"DisruptionBudget","message":"needs 1"}]})"));
  EXPECT_EQ(budget.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(status::Reason(budget), kDisruptionBudget);
  EXPECT_FALSE(IsTooManyRequests(budget));
}

TEST(ServerErrorTest, DecodesApplyConflicts) {
  const absl::Status status = ServerError(
      409, {},
      Body(
          409, "Conflict", "Apply failed with 2 conflicts",
          R"({"name":"a","causes":[)"
          R"({"reason":"FieldManagerConflict","message":"conflict with \"kubectl\" using apps/v1",)"
          R"("field":".spec.replicas"},)"
          R"({"reason":"FieldManagerConflict","message":"conflict with \"a \\\"b\\\"\" with )"
          R"(subresource \"status\" using v1 at 2026-01-01T00:00:00Z","field":".spec.x"}]})"));
  EXPECT_EQ(status.code(), StatusCode::kAborted);
  EXPECT_EQ(status::Reason(status), kApplyConflict);
  EXPECT_TRUE(IsConflict(status));
  EXPECT_EQ(ApplyConflicts(status),
            (std::vector<ApplyConflict>{{"kubectl", ".spec.replicas"}, {"a \"b\"", ".spec.x"}}));
  const absl::Status plain = ServerError(409, {}, Body(409, "Conflict", "changed"));
  EXPECT_TRUE(IsConflict(plain));
  EXPECT_TRUE(ApplyConflicts(plain).empty());
  EXPECT_FALSE(IsConflict(ServerError(409, {}, Body(409, "AlreadyExists", ""))));
}

TEST(ServerErrorTest, SaysWhenToAskAgain) {
  const std::string details = R"({"name":"a","retryAfterSeconds":5})";
  const std::string body = Body(429, "TooManyRequests", "", details);
  EXPECT_EQ(RetryAfter(ServerError(429, {}, body)), absl::Seconds(5));
  EXPECT_EQ(RetryAfter(ServerError(429, {{"retry-after", "7"}}, body)), absl::Seconds(7));
  EXPECT_EQ(RetryAfter(ServerError(503, {{"Retry-After", "1"}}, "")), absl::Seconds(1));
  EXPECT_EQ(RetryAfter(ServerError(503, {{"Retry-After", "99999999"}}, "")), absl::Hours(1));
  for (const char* value : {"0", "-1", "", "soon", "Wed, 21 Oct 2026 07:28:00 GMT"}) {
    EXPECT_EQ(RetryAfter(ServerError(503, {{"Retry-After", value}}, "")), absl::nullopt) << value;
  }
}

TEST(ServerErrorTest, NamesTheFlowThatWasShed) {
  const absl::Status status = ServerError(
      429, {{"X-Kubernetes-Pf-Flowschema-Uid", "f"}, {"X-Kubernetes-Pf-Prioritylevel-Uid", "p"}},
      "");
  const auto metadata = status::GetErrorInfo(status)->metadata;
  EXPECT_EQ(metadata.at("flow_schema_uid"), "f");
  EXPECT_EQ(metadata.at("priority_level_uid"), "p");
}

TEST(ServerErrorTest, ReadsProtobufToo) {
  k8s::io::apimachinery::pkg::apis::meta::v1::Status proto;
  proto.set_status("Failure");
  proto.set_reason("AlreadyExists");
  proto.set_code(409);
  proto.mutable_details()->set_name("a");
  EXPECT_TRUE(
      absl::IsAlreadyExists(ServerError(409, {}, WriteProtobufEnvelope("v1", "Status", proto))));
  EXPECT_FALSE(
      absl::IsAlreadyExists(ServerError(409, {}, WriteProtobufEnvelope("v1", "Pod", proto))));
}

TEST(ServerErrorTest, IsBounded) {
  std::string causes;
  for (int i = 0; i < 1000; ++i) {
    absl::StrAppend(&causes, i > 0 ? "," : "", R"({"message":")", std::string(800, 'm'),
                    R"(","field":"f)", i, R"("})");
  }
  const std::string body = Body(422, "Invalid", std::string(200000, 'w'),
                                absl::StrCat(R"({"name":"a","causes":[)", causes, "]}"));
  ASSERT_LT(body.size(), kMaxErrorBytes);
  const absl::Status status = ServerError(422, {}, body);
  EXPECT_EQ(status::Reason(status), kInvalid);
  EXPECT_LT(status.message().size(), 5000u);
  EXPECT_EQ(status::GetFieldViolations(status).size(), 100u);
  // Only so much is read.
  EXPECT_EQ(status::GetFieldViolations(
                ServerError(422, {}, body + std::string(kMaxErrorBytes, ' ') + "x"))
                .size(),
            100u);
}

TEST(ServerErrorTest, OthersErrorsAreNone) {
  const absl::Status other = status::Error(StatusCode::kNotFound, "ELSE", "x");
  EXPECT_EQ(HttpStatusOf(other), 0);
  EXPECT_EQ(HttpStatusOf(absl::OkStatus()), 0);
  EXPECT_FALSE(IsConflict(other));
  EXPECT_FALSE(IsExpired(absl::OkStatus()));
  EXPECT_EQ(RetryAfter(status::WithRetryDelay(other, absl::Seconds(1))), absl::nullopt);
}

}  // namespace
}  // namespace capstan::kube
