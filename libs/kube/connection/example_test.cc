// The code of docs/kube.md on calls, discovery, webhooks and the fake server.
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/kube/client/api_catalog.h"
#include "libs/kube/client/await.h"
#include "libs/kube/client/blocking_resource.h"
#include "libs/kube/client/discovery.h"
#include "libs/kube/client/request.h"
#include "libs/kube/client/server_error.h"
#include "libs/kube/client/typed_client.h"
#include "libs/kube/connection/connection.h"
#include "libs/kube/objects/dynamic_object.h"
#include "libs/kube/objects/json_conversion.h"
#include "libs/kube/objects/resource_type.h"
#include "libs/kube/objects/resources.h"
#include "libs/kube/testing/api_error.h"
#include "libs/kube/testing/fake_api_server.h"
#include "libs/kube/testing/fault_plan.h"
#include "libs/kube/webhook/admission_review.h"
#include "libs/kube/webhook/webhook_server.h"
#include "libs/status/error.h"
#include "libs/time/system_clock.h"
#include "nlohmann/json.hpp"

namespace capstan::kube {
namespace {

// [doc]
absl::Status Label(Connection* connection, const std::string& pod_name, const std::string& team) {
  const BlockingResource<core_v1::Pod> pods = connection->Calls(kPods);
  while (true) {
    const auto pod = pods.Get(connection->ns(), pod_name);
    if (!pod.ok()) return pod.status();
    core_v1::Pod changed = **pod;
    (*changed.mutable_metadata()->mutable_labels())["team"] = team;
    // It has the resource version that was read, so nobody else's change is overwritten.
    const absl::Status status = pods.Update(changed).status();
    if (!IsConflict(status)) return status;
  }
}
// [/doc]

// [doc]
absl::Status SetImage(Connection* connection, const std::string& deployment,
                      const std::string& image) {
  PatchOptions options;
  options.field_manager = "releases";
  const nlohmann::json patch = {
      {"apiVersion", "apps/v1"},
      {"kind", "Deployment"},
      {"metadata", {{"name", deployment}}},
      {"spec",
       {{"template", {{"spec", {{"containers", {{{"name", "main"}, {"image", image}}}}}}}}}}};
  const absl::Status status =
      connection->Calls(kDeployments)
          .Patch(connection->ns(), deployment, PatchType::kApply, patch.dump(), options)
          .status();
  for (const ApplyConflict& conflict : ApplyConflicts(status)) {
    // Somebody else owns it: `options.force` would take it from them.
    return status::Error(absl::StatusCode::kFailedPrecondition, "IMAGE_OWNED",
                         absl::StrCat(conflict.manager, " sets ", conflict.field));
  }
  return status;
}
// [/doc]

// [doc]
absl::StatusOr<int64_t> CountWidgets(Connection* connection) {
  // Built-in types are messages, all others JSON that keeps what it came with.
  const ResourceType widgets{"example.org", "v1", "Widget", "widgets", /*namespaced=*/true};
  const auto catalog = Await<ApiCatalog>(connection->client()->strand(), [&](auto done) {
    return Discover(connection->client(), std::move(done));
  });
  if (!catalog.ok()) return catalog.status();
  // Names what the server lacks, and what it has instead.
  const absl::Status served = catalog->Require(widgets, "list");
  if (!served.ok()) return served;
  ListOptions pages;
  pages.limit = 500;
  const BlockingResource<DynamicObject> calls(
      Resource<DynamicObject>(connection->client(), widgets));
  const auto all = calls.ListAll(/*ns=*/"", pages);
  if (!all.ok()) return all.status();
  int64_t count = 0;
  for (const auto& widget : all->items) count += widget->ToJson()["spec"].value("count", 0);
  return count;
}
// [/doc]

// [doc]
// Refuses Pods that ask for no memory.
class NeedsMemory : public AdmissionHandler {
 public:
  void Review(AdmissionRequest request, Done done) override {
    AdmissionResponse response;
    core_v1::Pod pod;
    if (!JsonToMessage(request.object, &pod).ok()) {
      response.code = 400;
      response.message = "no Pod";
      return done(std::move(response));
    }
    response.allowed = true;
    for (const auto& container : pod.spec().containers()) {
      if (container.resources().requests().contains("memory")) continue;
      response.allowed = false;
      response.message =
          absl::StrCat("container ", container.name(), ": set resources.requests.memory");
    }
    done(std::move(response));
  }
};
// [/doc]

class ExampleTest : public ::testing::Test {
 protected:
  static testing::FakeApiServerOptions WithBuiltinTypes() {
    testing::FakeApiServerOptions options;
    options.converter = &BuiltinConverter();
    return options;
  }
  void CreatePod(const std::string& name) {
    core_v1::Pod pod;
    pod.mutable_metadata()->set_namespace_("default");
    pod.mutable_metadata()->set_name(name);
    auto* const container = pod.mutable_spec()->add_containers();
    container->set_name("main");
    container->set_image("i");
    const auto created = connection_.Calls(kPods).Create(pod);
    ASSERT_TRUE(created.ok()) << created.status();
  }
  void CreateDynamic(const ResourceType& type, const nlohmann::json& json) {
    const BlockingResource<DynamicObject> calls(
        Resource<DynamicObject>(connection_.client(), type));
    const auto created = calls.Create(DynamicObject::FromJson(json).value());
    ASSERT_TRUE(created.ok()) << created.status();
  }

  const SystemClock clock_;
  testing::FakeApiServer server_{WithBuiltinTypes(), &clock_};
  Connection connection_{server_.NewTransport(), {}, &clock_};
};

TEST_F(ExampleTest, AConflictIsReadAgain) {
  CreatePod("web-0");
  // [doc]
  // The first PUT finds that somebody was faster.
  testing::RequestMatcher put;
  put.method = "PUT";
  server_.AddFault({put, testing::Answer{testing::Conflict(kPods.type(), "web-0", "changed")}});
  EXPECT_TRUE(Label(&connection_, "web-0", "research").ok());
  EXPECT_EQ(server_.CountRequests(put), 2);
  // [/doc]
  const auto pod = connection_.Calls(kPods).Get("default", "web-0");
  ASSERT_TRUE(pod.ok());
  EXPECT_EQ((*pod)->metadata().labels().at("team"), "research");
  EXPECT_TRUE(absl::IsNotFound(Label(&connection_, "web-1", "research")));
}

TEST_F(ExampleTest, AnApplySaysWhoOwnsTheField) {
  const nlohmann::json deployment = {
      {"apiVersion", "apps/v1"},
      {"kind", "Deployment"},
      {"metadata", {{"namespace", "default"}, {"name", "web"}}},
      {"spec",
       {{"selector", {{"matchLabels", {{"app", "web"}}}}},
        {"template",
         {{"metadata", {{"labels", {{"app", "web"}}}}},
          {"spec", {{"containers", {{{"name", "main"}, {"image", "i:1"}}}}}}}}}}};
  CreateDynamic(kDeployments.type(), deployment);
  const absl::Status owned = SetImage(&connection_, "web", "i:2");
  EXPECT_EQ(status::Reason(owned), "IMAGE_OWNED") << owned;
}

TEST_F(ExampleTest, DiscoverySaysWhatIsMissing) {
  const auto missing = CountWidgets(&connection_);
  EXPECT_EQ(status::Reason(missing.status()), kApiMissing) << missing.status();
  const ResourceType definitions{"apiextensions.k8s.io", "v1", "CustomResourceDefinition",
                                 "customresourcedefinitions", false};
  CreateDynamic(
      definitions,
      {{"apiVersion", "apiextensions.k8s.io/v1"},
       {"kind", "CustomResourceDefinition"},
       {"metadata", {{"name", "widgets.example.org"}}},
       {"spec",
        {{"group", "example.org"},
         {"scope", "Namespaced"},
         {"names", {{"kind", "Widget"}, {"plural", "widgets"}}},
         {"versions",
          {{{"name", "v1"},
            {"served", true},
            {"storage", true},
            {"schema",
             {{"openAPIV3Schema",
               {{"type", "object"}, {"x-kubernetes-preserve-unknown-fields", true}}}}}}}}}}});
  const ResourceType widgets{"example.org", "v1", "Widget", "widgets", true};
  for (int i = 1; i <= 3; ++i) {
    CreateDynamic(widgets,
                  {{"apiVersion", "example.org/v1"},
                   {"kind", "Widget"},
                   {"metadata", {{"namespace", "default"}, {"name", absl::StrCat("w", i)}}},
                   {"spec", {{"count", i}}}});
  }
  const auto counted = CountWidgets(&connection_);
  ASSERT_TRUE(counted.ok()) << counted.status();
  EXPECT_EQ(*counted, 6);
}

TEST_F(ExampleTest, AWebhookRefusesWithAReason) {
  NeedsMemory handler;
  const auto review = [&](const char* object) {
    AdmissionRequest request;
    request.object = object;
    AdmissionResponse given;
    handler.Review(std::move(request),
                   [&](AdmissionResponse response) { given = std::move(response); });
    return given;
  };
  const auto refused = review(R"({"spec": {"containers": [{"name": "c"}]}})");
  EXPECT_FALSE(refused.allowed);
  EXPECT_TRUE(absl::StrContains(refused.message, "container c"));
  EXPECT_TRUE(review(R"({"spec": {"containers": [
      {"name": "c", "resources": {"requests": {"memory": "1Gi"}}}]}})")
                  .allowed);
  EXPECT_EQ(review("[]").code, 400);
}

}  // namespace
}  // namespace capstan::kube
