#include "libs/kube/objects/protobuf_codec.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/kube/objects/object_error.h"
#include "libs/kube/objects/object_traits.h"
#include "libs/kube/objects/proto/runtime.pb.h"
#include "libs/kube/objects/proto_traits.h"
#include "libs/kube/objects/protobuf_envelope.h"
#include "libs/kube/objects/resources.h"
#include "libs/status/error.h"

namespace capstan::kube {
namespace {

// What k8s.io/api at v0.36.0 writes for
//   Pod{metadata:{name:"a",namespace:"b",resourceVersion:"7"},spec:{nodeName:"n"}},
// by hand from its generated.proto. Go writes the empty strings of Unknown, and those of
// ObjectMeta.
std::string PodBytes() {
  return absl::HexStringToBytes(
      "0a11"      // metadata
      "0a0161"    // name
      "1200"      // generateName
      "1a0162"    // namespace
      "2200"      // selfLink
      "2a00"      // uid
      "320137"    // resourceVersion
      "3800"      // generation
      "1203"      // spec
      "52016e");  // nodeName
}

std::string Envelope(absl::string_view kind, absl::string_view raw) {
  k8s::io::apimachinery::pkg::runtime::Unknown unknown;
  unknown.mutable_type_meta()->set_api_version("v1");
  unknown.mutable_type_meta()->set_kind(std::string(kind));
  unknown.set_raw(std::string(raw));
  unknown.set_content_encoding("");
  unknown.set_content_type("");
  return absl::StrCat(absl::string_view("k8s\0", 4), unknown.SerializeAsString());
}

std::string Field(int number, absl::string_view bytes) {
  return absl::StrCat(std::string(1, static_cast<char>(number << 3 | 2)),
                      std::string(1, static_cast<char>(bytes.size())), bytes);
}

const ProtobufCodec<core_v1::Pod>& Codec() {
  static const auto* codec = new ProtobufCodec<core_v1::Pod>(kPods.type());
  return *codec;
}

TEST(ProtobufCodecTest, ReadsWhatTheServerWrites) {
  const std::string body = absl::StrCat(absl::HexStringToBytes("6b387300"
                                                               "0a09"        // typeMeta
                                                               "0a027631"    // v1
                                                               "1203506f64"  // Pod
                                                               "1218"),      // raw
                                        PodBytes(), absl::HexStringToBytes("1a002200"));
  const auto pod = Codec().ParseBody(body);
  ASSERT_TRUE(pod.ok()) << pod.status();
  EXPECT_EQ((*pod)->metadata().name(), "a");
  EXPECT_EQ((*pod)->spec().node_name(), "n");
  EXPECT_EQ(ObjectTraits<core_v1::Pod>::Name(**pod), "a");
  EXPECT_EQ(ObjectTraits<core_v1::Pod>::Namespace(**pod), "b");
  EXPECT_EQ(ObjectTraits<core_v1::Pod>::ResourceVersion(**pod), "7");
  EXPECT_EQ(ObjectTraits<core_v1::Pod>::Uid(**pod), "");
  EXPECT_EQ(Codec().ParseBody(Codec().Write(**pod)).value()->SerializeAsString(),
            (*pod)->SerializeAsString());
}

TEST(ProtobufCodecTest, WritesAnEnvelopeThatUnknownReads) {
  core_v1::Pod pod;
  pod.mutable_metadata()->set_name("a");
  const std::string body = Codec().Write(pod);
  EXPECT_EQ(absl::BytesToHexString(body), "6b3873000a090a0276311203506f6412050a030a0161");
  k8s::io::apimachinery::pkg::runtime::Unknown unknown;
  ASSERT_TRUE(absl::StartsWith(body, absl::string_view("k8s\0", 4)));
  ASSERT_TRUE(unknown.ParseFromString(body.substr(4)));
  EXPECT_EQ(unknown.type_meta().kind(), "Pod");
  EXPECT_EQ(unknown.type_meta().api_version(), "v1");
  EXPECT_EQ(unknown.raw(), pod.SerializeAsString());
}

TEST(ProtobufCodecTest, WritesEqualObjectsAlike) {
  core_v1::Pod forth;
  core_v1::Pod back;
  for (int i = 0; i < 50; ++i) {
    (*forth.mutable_metadata()->mutable_labels())[absl::StrCat(i)] = "x";
    (*back.mutable_metadata()->mutable_labels())[absl::StrCat(49 - i)] = "x";
  }
  EXPECT_EQ(Codec().Write(forth), Codec().Write(back));
}

TEST(ProtobufCodecTest, KeepsFieldsThatItDoesNotKnow) {
  // metadata, spec and status each with a field 1000, and the pod itself with one.
  const std::string unknown = absl::StrCat(absl::HexStringToBytes("c23e"),
                                           "\x03"
                                           "new");
  const std::string raw = absl::StrCat(Field(1, absl::StrCat(Field(1, "a"), unknown)),
                                       Field(2, unknown), Field(3, unknown), unknown);
  const auto pod = Codec().ParseBody(Envelope("Pod", raw));
  ASSERT_TRUE(pod.ok()) << pod.status();
  core_v1::Pod changed = **pod;
  changed.mutable_spec()->set_node_name("n");
  const std::string written = Codec().Write(changed);
  size_t found = 0;
  for (size_t at = 0; (at = written.find(unknown, at)) != std::string::npos; ++at) ++found;
  EXPECT_EQ(found, 4u);
  EXPECT_TRUE(absl::StrContains(written, Field(10, "n")));
}

TEST(ProtobufCodecTest, ReadsListsItemByItem) {
  const std::string metadata =
      absl::StrCat(Field(2, "42"), Field(3, "token"), absl::HexStringToBytes("2007"));
  const std::string raw = absl::StrCat(Field(1, metadata), Field(2, PodBytes()), Field(2, ""));
  const auto page = Codec().ParseList(Envelope("PodList", raw));
  ASSERT_TRUE(page.ok()) << page.status();
  ASSERT_EQ(page->items.size(), 2u);
  EXPECT_EQ(page->items[0]->metadata().name(), "a");
  EXPECT_EQ(page->items[1]->metadata().name(), "");
  EXPECT_EQ(page->resource_version, "42");
  EXPECT_EQ(page->continue_token, "token");
  EXPECT_EQ(page->remaining, 7);

  const auto last = Codec().ParseList(Envelope("PodList", Field(1, Field(2, "42"))));
  ASSERT_TRUE(last.ok());
  EXPECT_TRUE(last->items.empty());
  EXPECT_EQ(last->continue_token, "");
  EXPECT_EQ(last->remaining, absl::nullopt);
}

TEST(ProtobufCodecTest, ReadsTheObjectsOfAWatchWithoutEnvelope) {
  EXPECT_EQ(Codec().ParseObject(PodBytes()).value()->metadata().name(), "a");
}

TEST(ProtobufCodecTest, RefusesWhatIsNotItsType) {
  const std::string pod = PodBytes();
  k8s::io::apimachinery::pkg::runtime::Unknown packed;
  packed.mutable_type_meta()->set_api_version("v1");
  packed.mutable_type_meta()->set_kind("Pod");
  packed.set_content_encoding("gzip");
  k8s::io::apimachinery::pkg::runtime::Unknown json = packed;
  json.set_content_encoding("");
  json.set_content_type("application/json");
  const absl::string_view magic("k8s\0", 4);
  const std::vector<std::string> bodies = {
      "",
      "{}",
      "k8s",
      std::string(magic),
      absl::StrCat(magic, pod),
      Envelope("Node", pod),
      Envelope("PodList", pod),
      Envelope("Pod", "sesame"),
      Envelope("Pod", pod).substr(0, 20),
      absl::StrCat(magic, packed.SerializeAsString()),
      absl::StrCat(magic, json.SerializeAsString()),
  };
  for (const std::string& body : bodies) {
    const auto parsed = Codec().ParseBody(body);
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument)
        << absl::BytesToHexString(body);
    EXPECT_EQ(status::Reason(parsed.status()), kObjectMalformed);
    EXPECT_FALSE(absl::StrContains(parsed.status().message(), "sesame"));
  }
  EXPECT_FALSE(Codec().ParseList(Envelope("Pod", pod)).ok());
  EXPECT_FALSE(Codec().ParseList(Envelope("PodList", Field(2, "sesame"))).ok());
  EXPECT_FALSE(Codec().ParseList(Envelope("PodList", Field(1, "sesame"))).ok());
}

}  // namespace
}  // namespace capstan::kube
