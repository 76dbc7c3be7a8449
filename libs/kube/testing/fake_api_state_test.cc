#include "libs/kube/testing/fake_api_state.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/kube/testing/selector.h"
#include "libs/kube/testing/watch_cursor.h"
#include "libs/random/random.h"
#include "libs/time/simulated_clock.h"

namespace capstan::kube::testing {
namespace {

class FakeApiStateTest : public ::testing::Test {
 protected:
  const FakeType& Type(const std::string& plural, const std::string& group = "") {
    const FakeType* const type = state_.FindType(group, "v1", plural);
    EXPECT_NE(type, nullptr) << plural;
    return *type;
  }
  Json Make(const std::string& plural, const std::string& name, Json more = Json::object()) {
    more["metadata"]["name"] = name;
    const auto created = state_.Create(Type(plural), "default", std::move(more));
    EXPECT_TRUE(created.ok()) << (created.ok() ? "" : created.error().message);
    state_.RunControllers();
    return *created;
  }
  bool Exists(const std::string& plural, const std::string& name) {
    return state_.Get(Type(plural), "default", name).ok();
  }

  SimulatedClock clock_;
  Random random_{7};
  FakeApiState state_{FakeApiStateOptions(), &clock_, &random_};
};

using Shown = std::map<std::string, Json>;

Shown ListAt(const RevisionStore& store, const FakeType& type, const LabelSelector& labels,
             int64_t revision) {
  Shown shown;
  for (const auto& [key, object] : store.ListAt(type.StoreName(), "", revision)) {
    if (labels.Matches(*object)) shown[key.ns + "/" + key.name] = *object;
  }
  return shown;
}

// If it fails, a client that lists and then watches ends with another state than the server's.
TEST_F(FakeApiStateTest, AWatchFromAnyRevisionLeadsToTheListedState) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    Random random(seed);
    Random ids(seed);
    FakeApiState state(FakeApiStateOptions(), &clock_, &ids);
    const FakeType& type = *state.FindType("", "v1", "configmaps");
    const LabelSelector labels = seed % 2 == 0 ? LabelSelector() : *LabelSelector::Parse("x=1");
    std::vector<int64_t> revisions = {state.store().revision()};
    for (int step = 0; step < 60; ++step) {
      const std::string name = absl::StrCat("n", random.Below(6));
      Json object = {{"metadata", {{"name", name}}}, {"data", {{"k", absl::StrCat(step)}}}};
      object["metadata"]["labels"]["x"] = absl::StrCat(random.Below(2));
      if (random.OneIn(4)) object["metadata"]["finalizers"] = {"example.com/f"};
      switch (random.Below(3)) {
        case 0:
          (void)state.Create(type, "default", object);
          break;
        case 1:
          (void)state.Update(type, "default", name, "", object);
          break;
        default:
          (void)state.Delete(type, "default", name);
      }
      state.RunControllers();
      revisions.push_back(state.store().revision());
    }
    const Shown last = ListAt(state.store(), type, labels, state.store().revision());
    for (const int64_t revision : revisions) {
      Shown shown = ListAt(state.store(), type, labels, revision);
      WatchPlan plan;
      plan.type = &type;
      plan.labels = labels;
      plan.after_revision = revision;
      WatchCursor cursor(std::move(plan), &state, nullptr);
      int64_t seen = revision;
      for (const std::string& frame : cursor.Poll()) {
        const Json event = ParseJson(frame);
        const Json& object = event["object"];
        const std::string key = absl::StrCat(Text(Find(object, {"metadata", "namespace"})), "/",
                                             Text(Find(object, {"metadata", "name"})));
        int64_t version = 0;
        ASSERT_TRUE(
            absl::SimpleAtoi(Text(Find(object, {"metadata", "resourceVersion"})), &version));
        ASSERT_GT(version, seen);
        seen = version;
        const std::string kind = event["type"];
        ASSERT_EQ(shown.count(key) > 0, kind != "ADDED") << frame;
        if (kind == "DELETED") {
          shown.erase(key);
        } else {
          shown[key] = object;
        }
      }
      ASSERT_EQ(shown, last) << "seed " << seed << " from " << revision;
    }
  }
}

TEST_F(FakeApiStateTest, EqualSeedsGiveEqualStates) {
  const auto text = [&](uint64_t seed) {
    Random random(seed);
    FakeApiState state(FakeApiStateOptions(), &clock_, &random);
    (void)state.Create(*state.FindType("", "v1", "configmaps"), "default",
                       {{"metadata", {{"generateName", "a-"}}}});
    std::string all;
    for (const auto& [key, object] : state.store().all()) all += WriteJson(*object);
    return all;
  };
  EXPECT_EQ(text(3), text(3));
  EXPECT_NE(text(3), text(4));
}

TEST_F(FakeApiStateTest, HistoryIsBounded) {
  Random random(1);
  FakeApiStateOptions options;
  options.max_history = 5;
  FakeApiState state(options, &clock_, &random);
  const FakeType& type = *state.FindType("", "v1", "configmaps");
  for (int i = 0; i < 20; ++i) {
    (void)state.Create(type, "default", {{"metadata", {{"name", absl::StrCat("n", i)}}}});
  }
  EXPECT_EQ(state.store().compacted(), state.store().revision() - 5);
  EXPECT_EQ(state.store().ChangesAfter(state.store().compacted()).size(), 5u);
}

TEST_F(FakeApiStateTest, DefinitionsServeNewTypesAndTakeTheirObjectsAlong) {
  const Json definition = ParseJson(R"({"metadata":{"name":"widgets.example.com"},"spec":{
      "group":"example.com","scope":"Namespaced",
      "names":{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList"},
      "versions":[{"name":"v1","served":true,"storage":true,
                   "subresources":{"status":{},"scale":{"specReplicasPath":".spec.n",
                                                        "statusReplicasPath":".status.n"}}}]}})");
  const FakeType& definitions = Type("customresourcedefinitions", "apiextensions.k8s.io");
  ASSERT_TRUE(state_.Create(definitions, "", definition).ok());
  const FakeType& widgets = Type("widgets", "example.com");
  const auto made = state_.Create(widgets, "default",
                                  {{"metadata", {{"name", "a"}}},
                                   {"spec", {{"n", 1}, {"any", nullptr}}},
                                   {"status", {{"n", 9}}}});
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_FALSE(made->contains("status"));
  EXPECT_EQ((*made)["metadata"]["generation"], 1);
  const auto scaled = state_.UpdateScale(
      widgets, "default", "a", {{"metadata", {{"name", "a"}}}, {"spec", {{"replicas", 4}}}});
  ASSERT_TRUE(scaled.ok());
  const Json now = *state_.Get(widgets, "default", "a");
  EXPECT_EQ(now["spec"]["n"], 4);
  EXPECT_EQ(now["metadata"]["generation"], 2);
  // The status endpoint changes the status and nothing else.
  Json other = now;
  other["spec"]["n"] = 7;
  other["metadata"]["labels"]["x"] = "y";
  other["status"]["n"] = 4;
  const auto written = state_.Update(widgets, "default", "a", "status", other);
  ASSERT_TRUE(written.ok()) << written.error().message;
  EXPECT_EQ(written->object["spec"]["n"], 4);
  EXPECT_FALSE(written->object["metadata"].contains("labels"));
  EXPECT_EQ(written->object["status"]["n"], 4);
  EXPECT_EQ(written->object["metadata"]["generation"], 2);

  ASSERT_TRUE(state_.Delete(definitions, "", "widgets.example.com").ok());
  state_.RunControllers();
  EXPECT_EQ(state_.FindType("example.com", "v1", "widgets"), nullptr);
  EXPECT_TRUE(state_.store().List("example.com/widgets", "").empty());
}

TEST_F(FakeApiStateTest, BudgetsAreSpentByEvictions) {
  Json pod = ParseJson(R"({"metadata":{"labels":{"x":"y"}},"spec":{"nodeName":"n",
                           "containers":[{"name":"c","image":"i"}]}})");
  for (const char* const name : {"a", "b"}) {
    Make("pods", name, pod);
    ASSERT_TRUE(state_
                    .Patch(Type("pods"), "default", name, "status", PatchKind::kMerge,
                           {{"status", {{"phase", "Running"}}}})
                    .ok());
  }
  const FakeType& budgets = Type("poddisruptionbudgets", "policy");
  ASSERT_TRUE(state_
                  .Create(budgets, "default", ParseJson(R"({"metadata":{"name":"p"},
                             "spec":{"selector":{"matchLabels":{"x":"y"}}}})"))
                  .ok());
  // Not looked at by its controller yet.
  auto evicted = state_.Evict("default", "a", Json::object());
  ASSERT_FALSE(evicted.ok());
  EXPECT_EQ(evicted.error().code, 429);
  EXPECT_EQ(evicted.error().details["retryAfterSeconds"], 10);
  ASSERT_TRUE(state_
                  .Patch(budgets, "default", "p", "status", PatchKind::kMerge,
                         {{"status", {{"observedGeneration", 1}, {"disruptionsAllowed", 1}}}})
                  .ok());
  EXPECT_TRUE(state_.Evict("default", "a", Json::object()).ok());
  evicted = state_.Evict("default", "b", Json::object());
  ASSERT_FALSE(evicted.ok());
  EXPECT_EQ(evicted.error().code, 429);
  EXPECT_EQ(evicted.error().details["causes"][0]["reason"], "DisruptionBudget");
  // A test may refuse on its own.
  state_.hooks().disrupt = [](const Json&) { return Plain(500, "no"); };
  EXPECT_EQ(state_.Evict("default", "b", Json::object()).error().code, 500);
}

TEST_F(FakeApiStateTest, HooksDecide) {
  state_.hooks().admit = [](const FakeType& type, const Json& before,
                            const Json& after) -> absl::optional<ApiError> {
    if (!before.is_null() && after.is_null()) {
      return Forbidden(type.resource, Text(Find(before, {"metadata", "name"})), "no deletes");
    }
    return absl::nullopt;
  };
  Make("configmaps", "a");
  EXPECT_EQ(state_.Delete(Type("configmaps"), "default", "a").error().code, 403);
  EXPECT_TRUE(Exists("configmaps", "a"));
  state_.hooks().unknown_fields = [](const FakeType&, const Json& object) {
    return object.contains("dat") ? std::vector<std::string>{"dat"} : std::vector<std::string>();
  };
  WriteOptions strict;
  strict.strict = true;
  const Json typo = {{"metadata", {{"name", "b"}}}, {"dat", Json::object()}};
  EXPECT_EQ(state_.Create(Type("configmaps"), "default", typo, strict).error().code, 400);
  EXPECT_TRUE(state_.Create(Type("configmaps"), "default", typo).ok());
  state_.hooks().review_token = [](const Json& review) {
    return Json{{"authenticated", Text(Find(review, {"spec", "token"})) == "good"}};
  };
  const auto review = state_.Create(Type("tokenreviews", "authentication.k8s.io"), "",
                                    {{"spec", {{"token", "good"}}}});
  ASSERT_TRUE(review.ok());
  EXPECT_EQ((*review)["status"]["authenticated"], true);
}

TEST_F(FakeApiStateTest, WithoutControllersNamespacesStayTerminating) {
  Random random(1);
  FakeApiStateOptions options;
  options.controllers = false;
  FakeApiState state(options, &clock_, &random);
  const FakeType& namespaces = *state.FindType("", "v1", "namespaces");
  ASSERT_TRUE(state.Create(namespaces, "", {{"metadata", {{"name", "a"}}}}).ok());
  ASSERT_TRUE(state.Delete(namespaces, "", "a").ok());
  state.RunControllers();
  EXPECT_EQ((*state.Get(namespaces, "", "a"))["status"]["phase"], "Terminating");
  const auto late = state.Create(*state.FindType("", "v1", "configmaps"), "a",
                                 {{"metadata", {{"name", "late"}}}});
  EXPECT_EQ(late.error().code, 403);
  EXPECT_EQ(late.error().details["causes"][0]["reason"], "NamespaceTerminating");
}

}  // namespace
}  // namespace capstan::kube::testing
