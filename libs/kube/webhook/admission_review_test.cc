#include "libs/kube/webhook/admission_review.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/status/error.h"
#include "nlohmann/json.hpp"

namespace capstan::kube {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

// As an API server writes it, with what is not known here among it.
constexpr char kReview[] = R"json({
  "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "later": {"a": [1, {"b": null}]},
  "request": {
    "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
    "kind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
    "resource": {"group": "apps", "version": "v1", "resource": "deployments"},
    "subResource": "scale",
    "requestKind": {"group": "autoscaling", "version": "v1beta1", "kind": "Scale"},
    "requestResource": {"group": "apps", "version": "v1beta1", "resource": "deployments"},
    "requestSubResource": "scale",
    "name": "my-\u0064eployment",
    "namespace": "my-namespace",
    "operation": "UPDATE",
    "userInfo": {"username": "admin", "uid": "014fbff9a07c",
                 "groups": ["system:authenticated", "my-admin-group"],
                 "extra": {"some-key": ["some-value1", "some-value2"]}},
    "object": {"n": 12345678901234567890123.50, "s": "}\"{", "deep": [{"x": [ ]}] },
    "oldObject": null,
    "options": {"kind": "UpdateOptions"},
    "dryRun": true, "new": [[[]]]
  }
})json";

TEST(AdmissionReviewTest, ReadsWhatAServerWrites) {
  const auto request = ParseAdmissionReview(kReview);
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->uid, "705ab4f5-6393-11e8-b7cc-42010a800002");
  EXPECT_EQ(request->kind, (GroupVersionKind{"autoscaling", "v1", "Scale"}));
  EXPECT_EQ(request->resource, (GroupVersionResource{"apps", "v1", "deployments"}));
  EXPECT_EQ(request->subresource, "scale");
  EXPECT_EQ(request->request_kind, (GroupVersionKind{"autoscaling", "v1beta1", "Scale"}));
  EXPECT_EQ(request->request_resource, (GroupVersionResource{"apps", "v1beta1", "deployments"}));
  EXPECT_EQ(request->request_subresource, "scale");
  EXPECT_EQ(request->name, "my-deployment");
  EXPECT_EQ(request->ns, "my-namespace");
  EXPECT_EQ(request->operation, AdmissionOperation::kUpdate);
  EXPECT_EQ(request->user.username, "admin");
  EXPECT_EQ(request->user.uid, "014fbff9a07c");
  EXPECT_THAT(request->user.groups, ElementsAre("system:authenticated", "my-admin-group"));
  EXPECT_THAT(request->user.extra,
              ElementsAre(Pair("some-key", ElementsAre("some-value1", "some-value2"))));
  // Byte for byte: no number is rounded.
  EXPECT_EQ(request->object,
            R"({"n": 12345678901234567890123.50, "s": "}\"{", "deep": [{"x": [ ]}] })");
  EXPECT_EQ(request->old_object, "");
  EXPECT_EQ(request->options, R"({"kind": "UpdateOptions"})");
  EXPECT_TRUE(request->dry_run);
}

TEST(AdmissionReviewTest, NeedsOnlyUidAndOperation) {
  const auto request =
      ParseAdmissionReview(R"({"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview",)"
                           R"("request":{"operation":"CONNECT","uid":"u"}})");
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->uid, "u");
  EXPECT_EQ(request->operation, AdmissionOperation::kConnect);
  EXPECT_EQ(request->object, "");
}

TEST(AdmissionReviewTest, NamesWhatIsWrong) {
  const std::string whole(kReview);
  struct Case {
    std::string body;
    std::string field;
  };
  const auto with = [&](const std::string& what, const std::string& instead) {
    const std::string body = absl::StrReplaceAll(whole, {{what, instead}});
    EXPECT_NE(body, whole) << what;
    return body;
  };
  const std::vector<Case> cases = {
      {"", "body"},
      {"7", "body"},
      {"[]", "body"},
      {"{", "body"},
      {absl::StrCat(whole, "{}"), "body"},
      {absl::StrCat(whole, "x"), "body"},
      {with("admission.k8s.io/v1", "admission.k8s.io/v1beta1"), "apiVersion"},
      {with("\"AdmissionReview\"", "\"Pod\""), "kind"},
      {with("\"request\":", "\"response\":"), "request"},
      {with("705ab4f5-6393-11e8-b7cc-42010a800002", ""), "request.uid"},
      {with("\"705ab4f5-6393-11e8-b7cc-42010a800002\"", "7"), "request.uid"},
      {with("UPDATE", "PATCH"), "request.operation"},
      {with("\"operation\"", "\"operations\""), "request.operation"},
      {with("\"group\": \"autoscaling\"", "\"group\": 1"), "request.kind"},
      {with("\"group\": \"apps\"", "\"group\": []"), "request.resource"},
      {with("\"dryRun\": true", "\"dryRun\": \"true\""), "request.dryRun"},
      {with("\"oldObject\": null", "\"oldObject\": []"), "request.oldObject"},
      {with("[\"system:authenticated\", \"my-admin-group\"]", "[1]"), "request.userInfo.groups"},
      {with("[\"some-value1\", \"some-value2\"]", "\"x\""), "request.userInfo.extra"},
  };
  for (const Case& c : cases) {
    const auto request = ParseAdmissionReview(c.body);
    ASSERT_FALSE(request.ok()) << c.field << "\n" << c.body;
    EXPECT_EQ(status::Reason(request.status()), "ADMISSION_REVIEW_MALFORMED");
    EXPECT_EQ(status::GetErrorInfo(request.status())->metadata.at("field"), c.field)
        << request.status();
    // What people send may be secret.
    EXPECT_THAT(request.status().ToString(), Not(HasSubstr("12345678901234567890123")));
  }
}

TEST(AdmissionReviewTest, TakesNoPartOfABodyForAWholeOne) {
  const std::string whole(kReview);
  for (size_t size = 0; size + 1 < whole.size(); ++size) {
    EXPECT_FALSE(ParseAdmissionReview(whole.substr(0, size)).ok()) << size;
  }
}

TEST(AdmissionReviewTest, WritesAnswers) {
  AdmissionResponse allowed;
  allowed.allowed = true;
  EXPECT_EQ(json::parse(WriteAdmissionReview("u", allowed)),
            json::parse(R"({"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview",
                            "response":{"uid":"u","allowed":true}})"));

  allowed.patch = R"([{"op":"add","path":"/spec/x","value":1}])";
  allowed.warnings = {"old field"};
  allowed.audit_annotations = {{"why", "default"}};
  json answer = json::parse(WriteAdmissionReview("u", allowed))["response"];
  EXPECT_EQ(answer["patchType"], "JSONPatch");
  std::string patch;
  ASSERT_TRUE(absl::Base64Unescape(answer["patch"].get<std::string>(), &patch));
  EXPECT_EQ(patch, allowed.patch);
  EXPECT_EQ(answer["warnings"], json::parse(R"(["old field"])"));
  EXPECT_EQ(answer["auditAnnotations"], json::parse(R"({"why":"default"})"));

  AdmissionResponse refused;
  refused.message = "no \xff queue";
  refused.reason = "Invalid";
  refused.code = 422;
  refused.patch = "[]";
  answer = json::parse(WriteAdmissionReview("u", refused))["response"];
  EXPECT_EQ(answer["allowed"], false);
  EXPECT_EQ(answer["status"]["code"], 422);
  EXPECT_EQ(answer["status"]["reason"], "Invalid");
  EXPECT_EQ(answer["status"]["message"], "no \xef\xbf\xbd queue");
  EXPECT_FALSE(answer.contains("patch"));
  // Deny by default.
  EXPECT_EQ(json::parse(WriteAdmissionReview("u", {}))["response"]["status"]["code"], 403);
}

}  // namespace
}  // namespace capstan::kube
