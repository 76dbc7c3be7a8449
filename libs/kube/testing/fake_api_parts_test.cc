// The pure parts under the fake API server.
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "libs/kube/testing/field_ownership.h"
#include "libs/kube/testing/field_set.h"
#include "libs/kube/testing/http_target.h"
#include "libs/kube/testing/list_query.h"
#include "libs/kube/testing/patch.h"
#include "libs/kube/testing/selector.h"
#include "libs/random/random.h"

namespace capstan::kube::testing {
namespace {

TEST(LabelSelector, RefusesWhatIsNoSelector) {
  for (const char* const bad :
       {"a===b", "=b", "a in b", "a in (b", "a,,b", "!", "a>x", "-a=b", "a b", "a in (b) c"}) {
    EXPECT_FALSE(LabelSelector::Parse(bad).ok()) << bad;
  }
}

TEST(LabelSelector, ObjectsSelectAsTextsDo) {
  const Json object = ParseJson(R"({"metadata":{"labels":{"a":"1","b":"2"}}})");
  EXPECT_TRUE(LabelSelector::FromObject(ParseJson("{}")).Matches(object));
  EXPECT_FALSE(LabelSelector::FromObject(nullptr).Matches(object));
  EXPECT_TRUE(LabelSelector::FromObject(ParseJson(R"({"matchLabels":{"a":"1"},"matchExpressions":[
      {"key":"b","operator":"In","values":["2","3"]},{"key":"c","operator":"DoesNotExist"}]})"))
                  .Matches(object));
  EXPECT_FALSE(
      LabelSelector::FromObject(ParseJson(R"({"matchExpressions":[{"key":"b","operator":"Exists"},
                                {"key":"a","operator":"NotIn","values":["1"]}]})"))
          .Matches(object));
}

TEST(HttpTarget, UnescapesPathAndQuery) {
  const auto target = ParseTarget("/a%2Fb//c?x=1%2B2&y=a+b&watch=true&x=3");
  ASSERT_TRUE(target.has_value());
  EXPECT_EQ(target->segments, (std::vector<std::string>{"a/b", "c"}));
  EXPECT_EQ(target->Parameter("x"), "1+2");
  EXPECT_EQ(target->Parameter("y"), "a b");
  EXPECT_TRUE(target->Flag("watch"));
  EXPECT_FALSE(ParseTarget("/%2").has_value());
  EXPECT_FALSE(ParseTarget("/?a=%zz").has_value());
}

TEST(ContinueToken, ComesBack) {
  const auto token = ReadContinueToken(WriteContinueToken({42, "ns/name"}));
  ASSERT_TRUE(token.ok());
  EXPECT_EQ(token->revision, 42);
  EXPECT_EQ(token->start, "ns/name");
  for (const char* const bad : {"", "x", "e30", "!"}) EXPECT_FALSE(ReadContinueToken(bad).ok());
}

Json RandomObject(Random* random) {
  Json object = {{"metadata", {{"labels", Json::object()}}}, {"data", Json::object()}};
  for (const char* const name : {"a", "b", "c"}) {
    if (random->OneIn(2)) object["data"][name] = random->Below(2) == 0 ? "0" : "1";
    if (random->OneIn(3)) object["metadata"]["labels"][name] = "x";
  }
  Json containers = Json::array();
  for (const char* const name : {"m", "n"}) {
    if (random->OneIn(2)) {
      containers.push_back({{"name", name}, {"image", random->OneIn(2) ? "i" : "j"}});
    }
  }
  if (!containers.empty()) object["spec"]["containers"] = containers;
  return object;
}

TEST(FieldSet, SurvivesItsJsonAndObeysSetAlgebra) {
  Random random(5);
  for (int i = 0; i < 300; ++i) {
    const FieldSet a = FieldsOf(RandomObject(&random), true);
    const FieldSet b = FieldsOf(RandomObject(&random), true);
    EXPECT_EQ(FromFieldsV1(ToFieldsV1(a)), a);
    EXPECT_TRUE(Difference(a, a).empty());
    EXPECT_EQ(Union(a, a), a);
    EXPECT_EQ(Union(a, b), Union(b, a));
    EXPECT_EQ(Union(Difference(a, b), Intersection(a, b)), a);
    EXPECT_TRUE(Intersection(Difference(a, b), b).empty());
  }
}

TEST(FieldSet, NamesPathsAsConflictsDo) {
  EXPECT_EQ(
      Paths(FieldsOf(ParseJson(R"({"metadata":{"finalizers":["x/y"]},"spec":{
                "replicas":1,"containers":[{"name":"c","image":"i"}]}})"),
                     true)),
      (std::vector<std::string>{".metadata.finalizers[=\"x/y\"]", ".spec.containers[name=\"c\"]",
                                ".spec.containers[name=\"c\"].image",
                                ".spec.containers[name=\"c\"].name", ".spec.replicas"}));
}

Json Owned(const Json& object) {
  Json bare = object;
  if (bare.contains("metadata")) bare["metadata"].erase("managedFields");
  return bare;
}

// If one fails, appliers lose what they own or overwrite what they do not.
TEST(Apply, KeepsItsPromisesOnRandomConfigurations) {
  Random random(9);
  for (int round = 0; round < 60; ++round) {
    Json live = nullptr;
    std::vector<Json> configs(3, Json::object());
    for (int step = 0; step < 12; ++step) {
      const size_t who = random.Below(3);
      FieldManager manager;
      manager.name = std::string(1, static_cast<char>('a' + who));
      manager.api_version = "v1";
      manager.now = absl::UnixEpoch() + absl::Seconds(step);
      const Json config = RandomObject(&random);
      const bool force = random.OneIn(3);
      const auto applied = Apply(live, config, manager, force);
      if (!applied.ok()) {
        ASSERT_FALSE(force);
        ASSERT_EQ(applied.error().code, 409);
        continue;
      }
      configs[who] = config;
      const Json before = std::exchange(live, *applied);
      // All that was asked for is there.
      ASSERT_TRUE(DifferenceWithin(FieldsOf(OwnablePart(config), true),
                                   FieldsOf(OwnablePart(Owned(live)), true))
                      .empty() ||
                  !Find(live, {"metadata", "managedFields"}).empty());
      for (const auto& [name, value] : Member(config, "data").items()) {
        ASSERT_EQ(live["data"][name], value);
      }
      // Nothing is there that no one asked for.
      for (const auto& [name, value] : Member(live, "data").items()) {
        bool wanted = false;
        for (const Json& one : configs) wanted = wanted || Member(one, "data").contains(name);
        ASSERT_TRUE(wanted) << name;
      }
      // Doing it again changes nothing, not even a time.
      manager.now += absl::Hours(1);
      const auto again = Apply(live, config, manager, false);
      ASSERT_TRUE(again.ok());
      ASSERT_EQ(*again, live);
    }
  }
}

TEST(StrategicMergePatch, ObeysItsDirectives) {
  struct Row {
    const char* object;
    const char* patch;
    const char* result;
  };
  for (const Row& row : std::vector<Row>{
           {R"({"a":1,"b":2})", R"({"b":null,"c":3})", R"({"a":1,"c":3})"},
           {R"({"m":{"a":1}})", R"({"m":{"$patch":"replace","b":2}})", R"({"m":{"b":2}})"},
           {R"({"m":{"a":1}})", R"({"m":{"$patch":"delete"}})", R"({})"},
           {R"({"m":{"a":1,"b":2}})", R"({"m":{"$retainKeys":["a"],"a":3}})", R"({"m":{"a":3}})"},
           {R"({"env":[{"name":"x","value":"1"}]})",
            R"({"env":[{"name":"y","value":"2"},{"name":"x","value":"3"}]})",
            R"({"env":[{"name":"x","value":"3"},{"name":"y","value":"2"}]})"},
           {R"({"env":[{"name":"x"}]})", R"({"env":[{"$patch":"replace"},{"name":"y"}]})",
            R"({"env":[{"name":"y"}]})"},
           {R"({"conditions":[{"type":"A","status":"True"}]})",
            R"({"conditions":[{"type":"A","status":"False"}],"$setElementOrder/conditions":[]})",
            R"({"conditions":[{"type":"A","status":"False"}]})"},
           {R"({"args":["1"]})", R"({"args":["2"]})", R"({"args":["2"]})"},
       }) {
    const auto patched = StrategicMergePatch(ParseJson(row.object), ParseJson(row.patch));
    ASSERT_TRUE(patched.ok());
    EXPECT_EQ(*patched, ParseJson(row.result)) << row.patch;
  }
}

}  // namespace
}  // namespace capstan::kube::testing
