#include "libs/kube/objects/json_codec.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/kube/objects/dynamic_object.h"
#include "libs/kube/objects/json_object.h"
#include "libs/kube/objects/object_error.h"
#include "libs/kube/objects/object_traits.h"
#include "libs/kube/objects/resource_type.h"
#include "libs/status/error.h"
#include "nlohmann/json.hpp"

namespace capstan::kube {
namespace {

const JsonCodec& Widgets() {
  static const auto* codec = new JsonCodec({"example.com", "v1", "Widget", "widgets", true});
  return *codec;
}

constexpr char kWidget[] =
    R"({"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w","namespace":"d",)"
    R"("uid":"u-1","resourceVersion":"9","generation":3,)"
    R"("deletionTimestamp":"2026-01-01T00:00:00Z",)"
    R"("labels":{"name":"not-the-name"},"ownerReferences":[{"name":"x","uid":"y"}]},)"
    R"("spec":{"name":"nor this","big":9007199254740993,"new":[1.5,null,true,{"metadata":{}}]}})";

TEST(DynamicObjectTest, TellsItsMetadata) {
  const auto object = DynamicObject::Parse(kWidget);
  ASSERT_TRUE(object.ok()) << object.status();
  EXPECT_EQ(object->api_version(), "example.com/v1");
  EXPECT_EQ(object->kind(), "Widget");
  EXPECT_EQ(object->generation(), 3);
  EXPECT_TRUE(object->deleting());
  using Traits = ObjectTraits<DynamicObject>;
  EXPECT_EQ(Traits::Namespace(*object), "d");
  EXPECT_EQ(Traits::Name(*object), "w");
  EXPECT_EQ(Traits::Uid(*object), "u-1");
  EXPECT_EQ(Traits::ResourceVersion(*object), "9");
  EXPECT_EQ(object->text(), kWidget);
}

TEST(DynamicObjectTest, ChangesOneFieldAndKeepsTheRest) {
  nlohmann::json json = DynamicObject::Parse(kWidget)->ToJson();
  json["spec"]["name"] = "changed";
  const auto changed = DynamicObject::FromJson(json);
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_EQ(changed->name(), "w");
  EXPECT_TRUE(absl::StrContains(changed->text(), R"("big":9007199254740993)"));
  EXPECT_TRUE(absl::StrContains(changed->text(), R"("new":[1.5,null,true,{"metadata":{}}])"));
  EXPECT_EQ(changed->ToJson(), json);
}

TEST(DynamicObjectTest, RefusesWhatIsNoObject) {
  const std::vector<std::string> texts = {
      "",
      "null",
      "[]",
      "\"a\"",
      "3",
      "{",
      "{}{}",
      R"({"kind":1})",
      R"({"kind":{}})",
      R"({"apiVersion":["v1"]})",
      R"({"metadata":"sesame"})",
      R"({"metadata":[]})",
      R"({"metadata":{"name":1}})",
      R"({"metadata":{"generation":"1"}})",
      R"({"metadata":{"generation":1.5}})",
      R"({"metadata":{"deletionTimestamp":1}})",
      "{\"a\":\"\xff\"}",
      R"({"a":01})",
  };
  for (const std::string& text : texts) {
    const auto object = DynamicObject::Parse(text);
    EXPECT_EQ(object.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_EQ(status::Reason(object.status()), kObjectMalformed);
    EXPECT_FALSE(absl::StrContains(object.status().message(), "sesame"));
  }
  EXPECT_FALSE(DynamicObject::FromJson(nlohmann::json{{"a", "\xff"}}).ok());
  EXPECT_FALSE(DynamicObject::FromJson(nlohmann::json()).ok());
  EXPECT_TRUE(DynamicObject::Parse(R"( {"metadata":null,"kind":null} )").ok());
}

TEST(DynamicObjectTest, BoundsTheDepth) {
  const auto nested = [](int depth, bool arrays) {
    std::string text;
    for (int i = 1; i < depth; ++i) text += arrays && i > 1 ? "[" : R"({"a":)";
    text += "{}";
    for (int i = depth - 1; i > 0; --i) text += arrays && i > 1 ? "]" : "}";
    return text;
  };
  for (const bool arrays : {false, true}) {
    EXPECT_TRUE(DynamicObject::Parse(nested(kMaxJsonDepth, arrays)).ok());
    const auto deep = DynamicObject::Parse(nested(kMaxJsonDepth + 1, arrays));
    EXPECT_TRUE(absl::StrContains(deep.status().message(), "deeper")) << deep.status();
    EXPECT_FALSE(DynamicObject::Parse(nested(1000000, arrays)).ok());
  }
}

TEST(JsonCodecTest, ReadsObjectsOfItsTypeAlone) {
  EXPECT_EQ(Widgets().ParseObject(kWidget).value()->name(), "w");
  EXPECT_EQ(Widgets().ParseBody(kWidget).value()->text(), kWidget);
  for (const char* other : {R"({"apiVersion":"example.com/v2","kind":"Widget"})",
                            R"({"apiVersion":"example.com/v1","kind":"Gadget"})",
                            R"({"kind":"Widget"})", R"({"apiVersion":"v1","kind":"Status"})"}) {
    EXPECT_EQ(status::Reason(Widgets().ParseBody(other).status()), kObjectMalformed) << other;
  }
}

TEST(JsonCodecTest, GivesAnObjectItsTypeIfItSaysNone) {
  const auto bare = DynamicObject::Parse(R"( { "metadata":{"name":"w"}})");
  EXPECT_EQ(Widgets().Write(*bare),
            R"({"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"}})");
  EXPECT_EQ(Widgets().Write(DynamicObject()), R"({"apiVersion":"example.com/v1","kind":"Widget"})");
  EXPECT_EQ(Widgets().ParseObject(bare->text()).value()->kind(), "Widget");
  EXPECT_EQ(Widgets().Write(*DynamicObject::Parse(kWidget)), kWidget);
}

TEST(JsonCodecTest, ReadsListsItemByItem) {
  const std::string text = absl::StrCat(
      R"({"kind":"WidgetList","apiVersion":"example.com/v1","metadata":{"resourceVersion":"42",)",
      R"("continue":"to\"ken","remainingItemCount":7},"items":[)", kWidget,
      R"( , {"metadata":{"name":"]},{\""},"spec":{"items":[1]}}]})", "\n");
  const auto page = Widgets().ParseList(text);
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_EQ(page->resource_version, "42");
  EXPECT_EQ(page->continue_token, "to\"ken");
  EXPECT_EQ(page->remaining, 7);
  ASSERT_EQ(page->items.size(), 2u);
  EXPECT_EQ(page->items[0]->text(), kWidget);
  EXPECT_EQ(page->items[1]->name(), "]},{\"");
  EXPECT_EQ(page->items[1]->kind(), "Widget");
  EXPECT_EQ(page->items[1]->ToJson()["spec"]["items"][0], 1);
}

TEST(JsonCodecTest, RefusesDamagedLists) {
  const std::string head = R"({"kind":"WidgetList","apiVersion":"example.com/v1",)";
  EXPECT_TRUE(Widgets().ParseList(head + R"("items":[]})").ok());
  EXPECT_TRUE(Widgets().ParseList(head + R"("items":null})").ok());
  for (const char* rest :
       {R"("items":[])", R"("items":[{}],"items":[]})", R"("items":{}})", R"("items":[1]})",
        R"("items":[{}}})", R"("items":[{]})", R"("items":[{"a":b}]})", R"("items":[{},]})",
        R"("items":[]} x)", R"("metadata":[],"items":[]})",
        R"("items":[{"kind":"Gadget","apiVersion":"example.com/v1"}]})"}) {
    EXPECT_FALSE(Widgets().ParseList(head + rest).ok()) << rest;
  }
  EXPECT_FALSE(Widgets().ParseList(kWidget).ok());
  EXPECT_FALSE(Widgets().ParseList("").ok());
  EXPECT_FALSE(Widgets().ParseList(R"({"kind":"WidgetList","apiVersion":"v1","items":[]})").ok());
}

}  // namespace
}  // namespace capstan::kube
