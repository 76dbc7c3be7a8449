#include "libs/kube/client/request.h"

#include <string>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/kube/client/response.h"
#include "nlohmann/json.hpp"

namespace capstan::kube {
namespace {

const ResourceType kPodType = {"", "v1", "Pod", "pods", true};
const ResourceType kWidgetType = {"example.com", "v1", "Widget", "widgets", true};

std::string Header(const ApiRequest& request, const char* name) {
  return std::string(FindHeader(request.headers, name).value_or(""));
}

TEST(QueryTest, EscapesAndLeavesOutWhatIsEmpty) {
  Query query;
  EXPECT_EQ(query.text(), "");
  query.Add("a", "");
  query.Add("labelSelector", "app in (x, y),!z&\xc3\xa9");
  query.Add("b", "1");
  EXPECT_EQ(query.text(), "?labelSelector=app%20in%20%28x%2c%20y%29%2c%21z%26%c3%a9&b=1");
}

TEST(RequestTest, Reads) {
  const ApiRequest get = GetRequest(kPodType, "a", "p", Encoding::kProtobuf);
  EXPECT_EQ(get.method, "GET");
  EXPECT_EQ(get.target, "/api/v1/namespaces/a/pods/p");
  EXPECT_EQ(Header(get, "Accept"), "application/vnd.kubernetes.protobuf,application/json");
  EXPECT_EQ(get.repeat, Repeat::kHarmless);

  ListOptions options;
  options.label_selector = "a=b";
  options.field_selector = "spec.nodeName=n";
  options.limit = 500;
  options.resource_version = "7";
  options.resource_version_match = "NotOlderThan";
  EXPECT_EQ(ListRequest(kWidgetType, "", options, Encoding::kJson).target,
            "/apis/example.com/v1/widgets?labelSelector=a%3db&fieldSelector=spec.nodeName%3dn"
            "&limit=500&resourceVersion=7&resourceVersionMatch=NotOlderThan");
  // The server refuses a token beside a version.
  options.continue_token = "t/=";
  EXPECT_EQ(ListRequest(kWidgetType, "a", options, Encoding::kJson).target,
            "/apis/example.com/v1/namespaces/a/widgets?labelSelector=a%3db"
            "&fieldSelector=spec.nodeName%3dn&limit=500&continue=t%2f%3d");
  EXPECT_EQ(Header(ListRequest(kWidgetType, "", {}, Encoding::kJson), "Accept"),
            "application/json");
}

TEST(RequestTest, WritesAreStrictAndNotRepeatedUnlessThatIsHarmless) {
  WriteOptions options;
  options.field_manager = "capstan";
  const ApiRequest create = CreateRequest(kPodType, "a", "body", options, Encoding::kProtobuf);
  EXPECT_EQ(create.method, "POST");
  EXPECT_EQ(create.target, "/api/v1/namespaces/a/pods?fieldManager=capstan&fieldValidation=Strict");
  EXPECT_EQ(Header(create, "Content-Type"), "application/vnd.kubernetes.protobuf");
  EXPECT_EQ(create.body, "body");
  EXPECT_EQ(create.repeat, Repeat::kHarmful);

  options = {};
  options.dry_run = true;
  options.field_validation = FieldValidation::kWarn;
  const ApiRequest dry = CreateRequest(kWidgetType, "a", "{}", options, Encoding::kJson);
  EXPECT_EQ(dry.target,
            "/apis/example.com/v1/namespaces/a/widgets?dryRun=All&fieldValidation=Warn");
  EXPECT_EQ(Header(dry, "Content-Type"), "application/json");
  EXPECT_EQ(dry.repeat, Repeat::kHarmless);

  for (const bool conditional : {false, true}) {
    const ApiRequest update =
        UpdateRequest(kPodType, "a", "p", "status", "", conditional, {}, Encoding::kProtobuf);
    EXPECT_EQ(update.method, "PUT");
    EXPECT_EQ(update.target, "/api/v1/namespaces/a/pods/p/status?fieldValidation=Strict");
    EXPECT_EQ(update.repeat, conditional ? Repeat::kHarmless : Repeat::kHarmful);
  }
  EXPECT_EQ(
      CreateSubresourceRequest(kPodType, "a", "p", "binding", "", {}, Encoding::kProtobuf).target,
      "/api/v1/namespaces/a/pods/p/binding?fieldValidation=Strict");
}

TEST(RequestTest, Patches) {
  struct Case {
    PatchType type;
    const char* content_type;
    Repeat repeat;
  };
  const Case cases[] = {
      {PatchType::kJson, "application/json-patch+json", Repeat::kHarmful},
      {PatchType::kMerge, "application/merge-patch+json", Repeat::kHarmful},
      {PatchType::kStrategicMerge, "application/strategic-merge-patch+json", Repeat::kHarmful},
      {PatchType::kApply, "application/apply-patch+yaml", Repeat::kHarmless},
  };
  for (const Case& c : cases) {
    PatchOptions options;
    options.force = true;
    options.field_manager = "m";
    const ApiRequest patch =
        PatchRequest(kPodType, "a", "p", "", c.type, "{}", options, Encoding::kProtobuf);
    EXPECT_EQ(patch.method, "PATCH");
    EXPECT_EQ(Header(patch, "Content-Type"), c.content_type);
    EXPECT_EQ(patch.repeat, c.repeat);
    const bool apply = c.type == PatchType::kApply;
    EXPECT_EQ(patch.target,
              std::string("/api/v1/namespaces/a/pods/p?fieldManager=m&fieldValidation=Strict") +
                  (apply ? "&force=true" : ""));
    options.repeatable = true;
    EXPECT_EQ(PatchRequest(kPodType, "a", "p", "", c.type, "{}", options, Encoding::kJson).repeat,
              Repeat::kHarmless);
  }
}

TEST(RequestTest, Deletes) {
  DeleteOptions options;
  const ApiRequest plain = DeleteRequest(kPodType, "a", "p", options, Encoding::kProtobuf);
  EXPECT_EQ(plain.method, "DELETE");
  EXPECT_EQ(plain.target, "/api/v1/namespaces/a/pods/p");
  EXPECT_EQ(Header(plain, "Content-Type"), "application/json");
  EXPECT_EQ(plain.repeat, Repeat::kHarmful);
  EXPECT_EQ(nlohmann::json::parse(plain.body),
            nlohmann::json::parse(R"({"apiVersion":"v1","kind":"DeleteOptions"})"));

  options.uid = "u";
  options.resource_version = "7";
  options.grace_period = absl::ZeroDuration();
  options.propagation = Propagation::kForeground;
  const ApiRequest exact = DeleteRequest(kPodType, "a", "p", options, Encoding::kProtobuf);
  EXPECT_EQ(exact.repeat, Repeat::kHarmless);
  EXPECT_EQ(
      nlohmann::json::parse(exact.body),
      nlohmann::json::parse(R"({"apiVersion":"v1","kind":"DeleteOptions","gracePeriodSeconds":0,)"
                            R"("preconditions":{"uid":"u","resourceVersion":"7"},)"
                            R"("propagationPolicy":"Foreground"})"));

  DeleteOptions dry;
  dry.dry_run = true;
  ListOptions list;
  list.label_selector = "a";
  const ApiRequest all = DeleteCollectionRequest(kPodType, "a", list, dry, Encoding::kProtobuf);
  EXPECT_EQ(all.target, "/api/v1/namespaces/a/pods?labelSelector=a");
  EXPECT_EQ(nlohmann::json::parse(all.body)["dryRun"], nlohmann::json::array({"All"}));
  EXPECT_EQ(all.repeat, Repeat::kHarmless);
}

TEST(RequestTest, Logs) {
  LogOptions options;
  EXPECT_EQ(LogRequest("a", "p", options).target, "/api/v1/namespaces/a/pods/p/log");
  options.container = "c";
  options.follow = true;
  options.previous = true;
  options.timestamps = true;
  options.tail_lines = 0;
  options.since = absl::Milliseconds(1);
  options.limit_bytes = 9;
  EXPECT_EQ(LogRequest("a", "p", options).target,
            "/api/v1/namespaces/a/pods/p/log?container=c&follow=true&previous=true"
            "&timestamps=true&tailLines=0&sinceSeconds=1&limitBytes=9");
}

TEST(ResponseTest, ReadsWarnings) {
  const std::vector<HttpHeader> headers = {
      {"Warning",
       R"(299 - "v1 is \"deprecated\"", 299 agent "two" "Wed, 21 Oct 2026 07:28:00 GMT")"},
      {"warning", R"(299 - "three")"},
      {"Warning", R"(199 - "other")"},
      {"Warning", "299 - \"no end"},
      {"Warning", "299"},
      {"Else", R"(299 - "four")"}};
  EXPECT_EQ(ReadWarnings(headers),
            (std::vector<std::string>{"v1 is \"deprecated\"", "two", "three"}));
  const std::vector<HttpHeader> many(100, {"Warning", "299 - \"" + std::string(5000, 'x') + "\""});
  EXPECT_EQ(ReadWarnings(many), std::vector<std::string>(32, std::string(1024, 'x')));
}

TEST(ResponseTest, ReadsFlowControl) {
  const FlowControl flow = ReadFlowControl({{"X-Kubernetes-Pf-Flowschema-Uid", "f"}});
  EXPECT_EQ(flow.flow_schema_uid, "f");
  EXPECT_EQ(flow.priority_level_uid, "");
}

}  // namespace
}  // namespace capstan::kube
