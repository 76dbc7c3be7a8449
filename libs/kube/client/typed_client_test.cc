#include "libs/kube/client/typed_client.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "gtest/gtest.h"
#include "libs/kube/client/client.h"
#include "libs/kube/client/pod_calls.h"
#include "libs/kube/client/request.h"
#include "libs/kube/client/review_calls.h"
#include "libs/kube/client/scripted_transport.h"
#include "libs/kube/client/server_error.h"
#include "libs/kube/objects/dynamic_object.h"
#include "libs/kube/objects/protobuf_codec.h"
#include "libs/kube/objects/protobuf_envelope.h"
#include "libs/kube/objects/resources.h"
#include "libs/random/random.h"
#include "libs/status/error.h"
#include "libs/strand/simulated_strand.h"
#include "libs/time/simulated_clock.h"

namespace capstan::kube {
namespace {

const ResourceType kWidgetType = {"example.com", "v1", "Widget", "widgets", true};

std::string Widget(const std::string& name) {
  return absl::StrCat(R"({"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":")",
                      name, R"(","namespace":"d","resourceVersion":"3"}})");
}

std::string WidgetPage(const std::vector<std::string>& names, const std::string& version,
                       const std::string& token) {
  std::string items;
  for (const std::string& name : names) {
    absl::StrAppend(&items, items.empty() ? "" : ",", Widget(name));
  }
  return absl::StrCat(R"({"apiVersion":"example.com/v1","kind":"WidgetList","metadata":)",
                      R"({"resourceVersion":")", version, R"(","continue":")", token,
                      R"("},"items":[)", items, "]}");
}

constexpr char kExpiredBody[] =
    R"({"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410})";

class TypedClientTest : public ::testing::Test {
 protected:
  template <typename T>
  DoneWith<T> Into(absl::optional<absl::StatusOr<T>>* result) {
    return [result](absl::StatusOr<T> value) { result->emplace(std::move(value)); };
  }
  void Run() {
    do {
      do {
        strand_.RunReady();
      } while (transport_.open() > 0 && transport_.Step());
    } while (strand_.RunNext());
  }
  const HttpRequest& last() const { return transport_.requests.back(); }

  SimulatedClock clock_;
  SimulatedStrand strand_{&clock_};
  Random random_{7};
  ScriptedTransport::Server server_;
  ScriptedTransport transport_{[this](const HttpRequest& request) { return server_(request); }};
  Client client_{&transport_, &strand_, &random_, ClientOptions()};
  Resource<core_v1::Pod> pods_{&client_, kPods};
  Resource<DynamicObject> widgets_{&client_, kWidgetType};
};

TEST_F(TypedClientTest, ReadsChangesAndWritesKeepingWhatIsUnknown) {
  const ProtobufCodec<core_v1::Pod> codec(kPods.type());
  core_v1::Pod stored;
  stored.mutable_metadata()->set_name("p");
  stored.mutable_metadata()->set_namespace_("d");
  stored.mutable_metadata()->set_resource_version("7");
  stored.mutable_spec()
      ->GetReflection()
      ->MutableUnknownFields(stored.mutable_spec())
      ->AddLengthDelimited(1000, "of a newer API");
  server_ = [&](const HttpRequest& request) {
    if (request.method == "PUT") return ScriptedReply{200, request.body};
    return ScriptedReply{200, codec.Write(stored)};
  };
  absl::optional<absl::StatusOr<ObjectPtr<core_v1::Pod>>> result;
  const auto get = pods_.Get("d", "p", Into(&result));
  Run();
  ASSERT_TRUE(result->ok()) << result->status();
  core_v1::Pod changed = ***result;
  (*changed.mutable_metadata()->mutable_labels())["a"] = "b";
  const auto update = pods_.Update(changed, {}, Into(&result));
  Run();
  ASSERT_TRUE(result->ok()) << result->status();
  EXPECT_EQ((**result)->metadata().labels().at("a"), "b");
  EXPECT_TRUE(absl::StrContains(last().body, "of a newer API"));
  EXPECT_EQ(last().target, "/api/v1/namespaces/d/pods/p?fieldValidation=Strict");
}

TEST_F(TypedClientTest, CallsForCustomResources) {
  server_ = [&](const HttpRequest&) { return ScriptedReply{200, Widget("w")}; };
  absl::optional<absl::StatusOr<ObjectPtr<DynamicObject>>> result;
  const auto object = DynamicObject::Parse(R"({"metadata":{"name":"w","namespace":"d"}})");
  auto call = widgets_.Create(*object, {}, Into(&result));
  Run();
  ASSERT_TRUE(result->ok()) << result->status();
  EXPECT_EQ((**result)->resource_version(), "3");
  EXPECT_EQ(last().method, "POST");
  EXPECT_EQ(last().body, R"({"apiVersion":"example.com/v1","kind":"Widget",)"
                         R"("metadata":{"name":"w","namespace":"d"}})");
  PatchOptions options;
  options.field_manager = "capstan";
  options.force = true;
  call = widgets_.Patch("d", "w", PatchType::kApply, "{}", options, Into(&result), "status");
  Run();
  EXPECT_EQ(last().target,
            "/apis/example.com/v1/namespaces/d/widgets/w/status?fieldManager=capstan"
            "&fieldValidation=Strict&force=true");
  ASSERT_TRUE(result->ok());
}

TEST_F(TypedClientTest, SaysWhenTheAnswerIsNoObject) {
  server_ = [&](const HttpRequest&) { return ScriptedReply{200, "<html>"}; };
  absl::optional<absl::StatusOr<ObjectPtr<core_v1::Pod>>> result;
  const auto call = pods_.Get("d", "p", Into(&result));
  Run();
  EXPECT_EQ(status::Reason(result->status()), "OBJECT_MALFORMED");
}

TEST_F(TypedClientTest, DeletesWhetherOrNotTheServerGivesTheObject) {
  std::string body = R"({"kind":"Status","apiVersion":"v1","status":"Success"})";
  server_ = [&](const HttpRequest&) { return ScriptedReply{200, body}; };
  absl::optional<absl::StatusOr<ObjectPtr<DynamicObject>>> result;
  auto call = widgets_.Delete("d", "w", {}, Into(&result));
  Run();
  ASSERT_TRUE(result->ok()) << result->status();
  EXPECT_EQ(**result, nullptr);
  body = Widget("w");
  call = widgets_.Delete("d", "w", {}, Into(&result));
  Run();
  ASSERT_TRUE(result->ok()) << result->status();
  EXPECT_EQ((**result)->name(), "w");

  meta_v1::Status status;
  status.set_status("Success");
  body = WriteProtobufEnvelope("v1", "Status", status);
  absl::optional<absl::StatusOr<ObjectPtr<core_v1::Pod>>> pod;
  call = pods_.Delete("d", "p", {}, Into(&pod));
  Run();
  ASSERT_TRUE(pod->ok()) << pod->status();
  EXPECT_EQ(**pod, nullptr);

  absl::optional<absl::StatusOr<ApiResponse>> all;
  call = pods_.DeleteCollection("d", {}, {}, Into(&all));
  Run();
  EXPECT_TRUE(all->ok());
  EXPECT_EQ(last().method, "DELETE");
  EXPECT_EQ(last().target, "/api/v1/namespaces/d/pods");
}

TEST_F(TypedClientTest, ListsAllPages) {
  server_ = [&](const HttpRequest& request) {
    if (absl::StrContains(request.target, "continue=t1")) {
      return ScriptedReply{200, WidgetPage({"b"}, "10", "t2")};
    }
    if (absl::StrContains(request.target, "continue=t2")) {
      return ScriptedReply{200, WidgetPage({"c"}, "10", "")};
    }
    return ScriptedReply{200, WidgetPage({"a"}, "10", "t1")};
  };
  absl::optional<absl::StatusOr<ListPage<DynamicObject>>> result;
  ListOptions options;
  options.limit = 1;
  options.label_selector = "x";
  const auto call = widgets_.ListAll("d", options, Into(&result));
  Run();
  ASSERT_TRUE(result->ok()) << result->status();
  ASSERT_EQ((*result)->items.size(), 3u);
  EXPECT_EQ((*result)->items[2]->name(), "c");
  EXPECT_EQ((*result)->resource_version, "10");
  EXPECT_EQ((*result)->continue_token, "");
  EXPECT_EQ(last().target,
            "/apis/example.com/v1/namespaces/d/widgets?labelSelector=x&limit=1&continue=t2");
}

TEST_F(TypedClientTest, BeginsAnewWhenAListExpiresOnTheWay) {
  int lists = 0;
  server_ = [&](const HttpRequest& request) {
    if (absl::StrContains(request.target, "continue=")) {
      return ScriptedReply{410, kExpiredBody};
    }
    ++lists;
    if (!absl::StrContains(request.target, "limit=")) {
      return ScriptedReply{200, WidgetPage({"x", "y"}, "30", "")};
    }
    return ScriptedReply{200, WidgetPage({"old"}, "10", "t")};
  };
  absl::optional<absl::StatusOr<ListPage<DynamicObject>>> result;
  ListOptions options;
  options.limit = 1;
  auto call = widgets_.ListAll("d", options, Into(&result));
  Run();
  ASSERT_TRUE(result->ok()) << result->status();
  EXPECT_EQ(lists, 3);
  ASSERT_EQ((*result)->items.size(), 2u) << "what came before the 410 is not of this list";
  EXPECT_EQ((*result)->items[0]->name(), "x");
  EXPECT_EQ((*result)->resource_version, "30");

  // A list that is expired from its first page on has no end of its own to wait for.
  server_ = [&](const HttpRequest&) { return ScriptedReply{410, kExpiredBody}; };
  call = widgets_.ListAll("d", options, Into(&result));
  Run();
  EXPECT_TRUE(IsExpired(result->status())) << result->status();
}

TEST_F(TypedClientTest, AListOfAllIsCancelledWithItsHandleAndWithTheClient) {
  server_ = [&](const HttpRequest&) { return ScriptedReply{200, WidgetPage({"a"}, "1", "t")}; };
  const auto token = std::make_shared<int>(1);
  const auto never = [token](absl::StatusOr<ListPage<DynamicObject>>) { FAIL(); };
  auto call = widgets_.ListAll("d", {}, never);
  strand_.RunReady();
  transport_.Step();
  strand_.RunReady();
  call.reset();
  EXPECT_EQ(transport_.open(), 0u);
  EXPECT_EQ(token.use_count(), 2);

  auto other = std::make_unique<Client>(&transport_, &strand_, &random_, ClientOptions());
  call = Resource<DynamicObject>(other.get(), kWidgetType).ListAll("d", {}, never);
  EXPECT_EQ(token.use_count(), 3);
  other.reset();
  EXPECT_EQ(token.use_count(), 2) << "whoever waits for it would wait for ever";
}

TEST_F(TypedClientTest, Scales) {
  server_ = [&](const HttpRequest& request) {
    autoscaling_v1::Scale scale;
    scale.mutable_metadata()->set_name("web");
    scale.mutable_metadata()->set_namespace_("d");
    scale.mutable_spec()->set_replicas(3);
    return ScriptedReply{200, request.method == "PUT"
                                  ? request.body
                                  : WriteProtobufEnvelope("autoscaling/v1", "Scale", scale)};
  };
  const Resource<apps_v1::Deployment> deployments(&client_, kDeployments);
  absl::optional<absl::StatusOr<ObjectPtr<autoscaling_v1::Scale>>> result;
  auto call = deployments.GetScale("d", "web", Into(&result));
  Run();
  ASSERT_TRUE(result->ok()) << result->status();
  autoscaling_v1::Scale scale = ***result;
  EXPECT_EQ(scale.spec().replicas(), 3);
  scale.mutable_spec()->set_replicas(5);
  call = deployments.UpdateScale(scale, {}, Into(&result));
  Run();
  ASSERT_TRUE(result->ok()) << result->status();
  EXPECT_EQ((**result)->spec().replicas(), 5);
  EXPECT_EQ(last().target,
            "/apis/apps/v1/namespaces/d/deployments/web/scale?fieldValidation=Strict");
}

TEST_F(TypedClientTest, ScalesCustomResourcesByJson) {
  constexpr char kScale[] =
      R"({"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"w","namespace":"d",
          "resourceVersion":"7"},"spec":{"replicas":3},"status":{"replicas":2,"selector":"a=b"}})";
  server_ = [&](const HttpRequest& request) {
    EXPECT_EQ(FindHeader(request.headers, "Accept"), "application/json");
    return ScriptedReply{200, request.method == "PUT" ? request.body : kScale};
  };
  absl::optional<absl::StatusOr<ObjectPtr<autoscaling_v1::Scale>>> result;
  auto call = widgets_.GetScale("d", "w", Into(&result));
  Run();
  ASSERT_TRUE(result->ok()) << result->status();
  EXPECT_EQ((**result)->spec().replicas(), 3);
  EXPECT_EQ((**result)->status().replicas(), 2);
  EXPECT_EQ((**result)->status().selector(), "a=b");
  autoscaling_v1::Scale scale = ***result;
  scale.mutable_spec()->set_replicas(0);
  call = widgets_.UpdateScale(scale, {}, Into(&result));
  Run();
  ASSERT_TRUE(result->ok()) << result->status();
  EXPECT_EQ(FindHeader(last().headers, "Content-Type"), "application/json");
  EXPECT_NE(last().body.find(R"("resourceVersion":"7")"), std::string::npos) << last().body;
  EXPECT_NE(last().body.find(R"("replicas":0)"), std::string::npos) << last().body;
  call = widgets_.PatchScale("d", "w", PatchType::kMerge, R"({"spec":{"replicas":4}})", {},
                             Into(&result));
  Run();
  ASSERT_TRUE(result->ok()) << result->status();
  EXPECT_EQ(last().method, "PATCH");
  EXPECT_NE(last().target.find("/w/scale"), std::string::npos);
  // What is no Scale.
  server_ = [](const HttpRequest&) { return ScriptedReply{200, R"({"kind":"Widget"})"}; };
  call = widgets_.GetScale("d", "w", Into(&result));
  Run();
  EXPECT_EQ(status::Reason(result->status()), "OBJECT_MALFORMED");
}

TEST_F(TypedClientTest, BindsAndEvictsPods) {
  server_ = [&](const HttpRequest&) { return ScriptedReply{201, ""}; };
  absl::optional<absl::StatusOr<ApiResponse>> result;
  auto call = BindPod(&client_, "d", "p", "u", "n", Into(&result));
  Run();
  ASSERT_TRUE(result->ok()) << result->status();
  EXPECT_EQ(last().target, "/api/v1/namespaces/d/pods/p/binding?fieldValidation=Strict");
  const auto binding = ProtobufCodec<core_v1::Binding>(kBindings.type()).ParseBody(last().body);
  ASSERT_TRUE(binding.ok()) << binding.status();
  EXPECT_EQ((*binding)->metadata().uid(), "u");
  EXPECT_EQ((*binding)->target().kind(), "Node");
  EXPECT_EQ((*binding)->target().name(), "n");

  DeleteOptions options;
  options.uid = "u";
  options.grace_period = absl::Seconds(30);
  call = EvictPod(&client_, "d", "p", options, Into(&result));
  Run();
  EXPECT_EQ(last().target, "/api/v1/namespaces/d/pods/p/eviction?fieldValidation=Strict");
  const auto eviction =
      ProtobufCodec<policy_v1::Eviction>(kEvictions.type()).ParseBody(last().body);
  ASSERT_TRUE(eviction.ok()) << eviction.status();
  EXPECT_EQ((*eviction)->metadata().name(), "p");
  EXPECT_EQ((*eviction)->delete_options().preconditions().uid(), "u");
  EXPECT_EQ((*eviction)->delete_options().grace_period_seconds(), 30);

  // An answer, not a reason to ask again.
  server_ = [&](const HttpRequest&) {
    return ScriptedReply{429,
                         R"({"status":"Failure","reason":"TooManyRequests","details":{"name":"p",)"
                         R"("retryAfterSeconds":1,"causes":[{"reason":"DisruptionBudget"}]}})"};
  };
  const size_t before = transport_.requests.size();
  call = EvictPod(&client_, "d", "p", options, Into(&result));
  Run();
  EXPECT_EQ(status::Reason(result->status()), kDisruptionBudget);
  EXPECT_EQ(transport_.requests.size(), before + 1);
}

TEST_F(TypedClientTest, Reviews) {
  server_ = [&](const HttpRequest& request) {
    if (absl::StrContains(request.target, "tokenreviews")) {
      authentication_v1::TokenReview review;
      review.mutable_status()->set_authenticated(true);
      review.mutable_status()->mutable_user()->set_username("u");
      return ScriptedReply{
          201, WriteProtobufEnvelope("authentication.k8s.io/v1", "TokenReview", review)};
    }
    if (absl::StrContains(request.target, "subjectaccessreviews")) {
      authorization_v1::SubjectAccessReview review;
      review.mutable_status()->set_allowed(true);
      return ScriptedReply{
          201, WriteProtobufEnvelope("authorization.k8s.io/v1", "SubjectAccessReview", review)};
    }
    authentication_v1::TokenRequest token;
    token.mutable_status()->set_token("t");
    return ScriptedReply{201,
                         WriteProtobufEnvelope("authentication.k8s.io/v1", "TokenRequest", token)};
  };
  absl::optional<absl::StatusOr<ObjectPtr<authentication_v1::TokenReview>>> who;
  auto call = ReviewToken(&client_, "secret", {"capstan"}, Into(&who));
  Run();
  ASSERT_TRUE(who->ok()) << who->status();
  EXPECT_EQ((**who)->status().user().username(), "u");
  EXPECT_EQ(last().target, "/apis/authentication.k8s.io/v1/tokenreviews?fieldValidation=Strict");

  absl::optional<absl::StatusOr<ObjectPtr<authorization_v1::SubjectAccessReview>>> may;
  call = ReviewAccess(&client_, {}, Into(&may));
  Run();
  ASSERT_TRUE(may->ok()) << may->status();
  EXPECT_TRUE((**may)->status().allowed());

  absl::optional<absl::StatusOr<ObjectPtr<authentication_v1::TokenRequest>>> token;
  call = RequestToken(&client_, "d", "sa", {}, Into(&token));
  Run();
  ASSERT_TRUE(token->ok()) << token->status();
  EXPECT_EQ((**token)->status().token(), "t");
  EXPECT_EQ(last().target, "/api/v1/namespaces/d/serviceaccounts/sa/token?fieldValidation=Strict");
}

TEST_F(TypedClientTest, StreamsLogs) {
  struct Reader final : StreamReader {
    bool OnBytes(absl::string_view bytes) override {
      text.append(bytes.data(), bytes.size());
      return true;
    }
    void OnEnd(absl::Status status) override { end = std::move(status); }
    std::string text;
    absl::optional<absl::Status> end;
  } reader;
  server_ = [&](const HttpRequest&) { return ScriptedReply{200, "line one\nline two\n"}; };
  LogOptions options;
  options.follow = true;
  const auto stream = StreamLog(&client_, "d", "p", options, &reader);
  Run();
  EXPECT_EQ(reader.text, "line one\nline two\n");
  EXPECT_EQ(reader.end, absl::OkStatus());
  EXPECT_EQ(last().target, "/api/v1/namespaces/d/pods/p/log?follow=true");
}

}  // namespace
}  // namespace capstan::kube
