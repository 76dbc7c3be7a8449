#include "libs/kube/client/discovery.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/types/optional.h"
#include "gtest/gtest.h"
#include "libs/kube/client/api_catalog.h"
#include "libs/kube/client/client.h"
#include "libs/kube/client/scripted_transport.h"
#include "libs/kube/client/server_error.h"
#include "libs/kube/objects/resources.h"
#include "libs/random/random.h"
#include "libs/status/error.h"
#include "libs/strand/simulated_strand.h"
#include "libs/time/simulated_clock.h"

namespace capstan::kube {
namespace {

constexpr char kAggregatedCore[] =
    R"({"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","metadata":{},)"
    R"("items":[{"metadata":{"creationTimestamp":null},"versions":[{"version":"v1","resources":[)"
    R"({"resource":"pods","responseKind":{"group":"","version":"v1","kind":"Pod"},)"
    R"("scope":"Namespaced","singularResource":"pod","verbs":["create","get","list"],)"
    R"("shortNames":["po"],"subresources":[{"subresource":"status",)"
    R"("responseKind":{"group":"","version":"v1","kind":"Pod"},"verbs":["get","patch"]}]},)"
    R"({"resource":"nodes","responseKind":{"group":"","version":"v1","kind":"Node"},)"
    R"("scope":"Cluster","verbs":["get"]}],"freshness":"Current"}]}]})";
constexpr char kAggregatedGroups[] =
    R"({"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","metadata":{},)"
    R"("items":[{"metadata":{"name":"example.com"},"versions":[{"version":"v2","resources":[)"
    R"({"resource":"widgets","responseKind":{"group":"example.com","version":"v2",)"
    R"("kind":"Widget"},"scope":"Namespaced","verbs":["get"]}]},{"version":"v1","resources":[)"
    R"({"resource":"widgets","responseKind":{"group":"example.com","version":"v1",)"
    R"("kind":"Widget"},"scope":"Namespaced","verbs":["get"]}]}]},)"
    R"({"metadata":{"name":"metrics.k8s.io"},"versions":[{"version":"v1beta1","resources":[],)"
    R"("freshness":"Stale"}]}]})";

class DiscoveryTest : public ::testing::Test {
 protected:
  absl::StatusOr<ApiCatalog> Run(ScriptedTransport::Server server) {
    transport_ = std::make_unique<ScriptedTransport>(std::move(server));
    Client client(transport_.get(), &strand_, &random_, ClientOptions());
    absl::optional<absl::StatusOr<ApiCatalog>> result;
    const auto call = Discover(
        &client, [&](absl::StatusOr<ApiCatalog> catalog) { result.emplace(std::move(catalog)); });
    do {
      do {
        strand_.RunReady();
      } while (transport_->open() > 0 && transport_->Step());
    } while (strand_.RunNext());
    return std::move(*result);
  }

  SimulatedClock clock_;
  SimulatedStrand strand_{&clock_};
  Random random_{7};
  std::unique_ptr<ScriptedTransport> transport_;
};

// What both kinds of server are to be understood alike in.
void ExpectCatalog(const ApiCatalog& catalog) {
  const ApiResource* pods = catalog.FindKind("", "v1", "Pod");
  ASSERT_NE(pods, nullptr);
  EXPECT_EQ(pods->type, kPods.type());
  EXPECT_EQ(catalog.FindPlural("", "v1", "nodes")->type, kNodes.type());
  EXPECT_EQ(catalog.FindPreferred("example.com", "Widget")->type.version, "v2");
  EXPECT_EQ(catalog.Versions("example.com"), (std::vector<std::string>{"v2", "v1"}));
  EXPECT_EQ(catalog.FindKind("", "v1", "Status"), nullptr);
  EXPECT_EQ(catalog.FindPreferred("none", "Widget"), nullptr);
  EXPECT_EQ(catalog.size(), 4u);

  EXPECT_TRUE(catalog.Require(kPods.type(), "list").ok());
  EXPECT_TRUE(catalog.Require(kPods.type(), "patch", "status").ok());
  struct Case {
    ResourceType type;
    const char* verb;
    const char* subresource;
    const char* words;
  };
  const Case cases[] = {
      {kPods.type(), "delete", "", "no delete for pods of v1; it has create, get, list"},
      {kPods.type(), "create", "status", "no create for pods/status of v1; it has get, patch"},
      {kPods.type(), "patch", "resize", "no pods/resize of v1"},
      {kLeases.type(), "get", "",
       "no leases of coordination.k8s.io/v1; of this group it has nothing"},
      {{"example.com", "v3", "Widget", "widgets", true}, "get", "", "it has v2, v1"},
  };
  for (const Case& c : cases) {
    const absl::Status status = catalog.Require(c.type, c.verb, c.subresource);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << c.words;
    EXPECT_EQ(status::Reason(status), kApiMissing);
    EXPECT_TRUE(absl::StrContains(status.message(), c.words)) << status;
  }
  const absl::Status blind =
      catalog.Require({"metrics.k8s.io", "v1beta1", "PodMetrics", "pods", true}, "get");
  EXPECT_EQ(blind.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(status::Reason(blind), kApiUnavailable);
}

TEST_F(DiscoveryTest, ReadsTheAggregatedForm) {
  const auto catalog = Run([](const HttpRequest& request) {
    return ScriptedReply{200, request.target == "/api" ? kAggregatedCore : kAggregatedGroups};
  });
  ASSERT_TRUE(catalog.ok()) << catalog.status();
  ExpectCatalog(*catalog);
  EXPECT_EQ(transport_->requests.size(), 2u);
  EXPECT_TRUE(absl::StartsWith(FindHeader(transport_->requests[0].headers, "Accept").value(),
                               "application/json;g=apidiscovery.k8s.io;v=v2;"
                               "as=APIGroupDiscoveryList,"));
}

TEST_F(DiscoveryTest, FallsBackToThePlainForm) {
  const auto catalog = Run([](const HttpRequest& request) -> ScriptedReply {
    const std::string& target = request.target;
    if (target == "/api") return {200, R"({"kind":"APIVersions","versions":["v1"]})"};
    if (target == "/apis") {
      return {200,
              R"({"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"example.com",)"
              R"("versions":[{"groupVersion":"example.com/v1","version":"v1"},)"
              R"({"groupVersion":"example.com/v2","version":"v2"}],)"
              R"("preferredVersion":{"groupVersion":"example.com/v2","version":"v2"}},)"
              R"({"name":"metrics.k8s.io","versions":[{"groupVersion":"metrics.k8s.io/v1beta1",)"
              R"("version":"v1beta1"}]}]})"};
    }
    if (target == "/api/v1") {
      return {200,
              R"({"kind":"APIResourceList","groupVersion":"v1","resources":[)"
              R"({"name":"pods","singularName":"","namespaced":true,"kind":"Pod",)"
              R"("verbs":["create","get","list"]},)"
              R"({"name":"pods/status","namespaced":true,"kind":"Pod","verbs":["get","patch"]},)"
              R"({"name":"nodes","namespaced":false,"kind":"Node","verbs":["get"]}]})"};
    }
    if (absl::StartsWith(target, "/apis/example.com/")) {
      return {200, R"({"kind":"APIResourceList","resources":[{"name":"widgets","namespaced":true,)"
                   R"("kind":"Widget","verbs":["get"]}]})"};
    }
    return {503, ""};
  });
  ASSERT_TRUE(catalog.ok()) << catalog.status();
  ExpectCatalog(*catalog);
}

TEST_F(DiscoveryTest, FailsIfTheRootsCannotBeRead) {
  EXPECT_EQ(Run([](const HttpRequest&) { return ScriptedReply{403, ""}; }).status().code(),
            absl::StatusCode::kPermissionDenied);
  for (const char* body : {"", "<html>", "{}", R"({"kind":"PodList"})",
                           R"({"kind":"APIGroupDiscoveryList","items":[1]})"}) {
    const auto catalog = Run([body](const HttpRequest&) { return ScriptedReply{200, body}; });
    EXPECT_EQ(status::Reason(catalog.status()), "OBJECT_MALFORMED") << body;
  }
}

TEST_F(DiscoveryTest, ReadsTheVersion) {
  ScriptedTransport transport([](const HttpRequest& request) {
    EXPECT_EQ(request.target, "/version");
    return ScriptedReply{200, R"({"major":"1","minor":"36","gitVersion":"v1.36.0","x":1})"};
  });
  Client client(&transport, &strand_, &random_, ClientOptions());
  absl::optional<absl::StatusOr<ServerVersion>> result;
  const auto call = GetServerVersion(
      &client, [&](absl::StatusOr<ServerVersion> version) { result.emplace(std::move(version)); });
  strand_.RunReady();
  transport.Step();
  strand_.RunReady();
  ASSERT_TRUE(result->ok()) << result->status();
  EXPECT_EQ((*result)->minor, "36");
  EXPECT_EQ((*result)->git_version, "v1.36.0");
}

}  // namespace
}  // namespace capstan::kube
