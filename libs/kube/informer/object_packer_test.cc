#include "libs/kube/informer/object_packer.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "libs/kube/informer/kept_object.h"
#include "libs/kube/objects/object_traits.h"
#include "libs/kube/objects/proto/core_v1_pod.pb.h"
#include "libs/kube/objects/proto_traits.h"
#include "libs/kube/objects/protobuf_codec.h"
#include "libs/kube/objects/resources.h"

namespace capstan::kube {
namespace {

using Pod = core_v1::Pod;
using Traits = ObjectTraits<KeptObject<Pod>>;

Pod MakePod(const std::string& phase = "Running") {
  Pod pod;
  pod.mutable_metadata()->set_namespace_("ns");
  pod.mutable_metadata()->set_name("web-0");
  pod.mutable_metadata()->set_uid("u-1");
  pod.mutable_metadata()->set_resource_version("41");
  (*pod.mutable_metadata()->mutable_labels())["app"] = "web";
  pod.mutable_status()->set_phase(phase);
  return pod;
}

class ObjectPackerTest : public testing::Test {
 protected:
  const ProtobufCodec<Pod> codec_{kPods.type()};
};

void ExpectNames(const KeptObject<Pod>& kept) {
  EXPECT_EQ(Traits::Namespace(kept), "ns");
  EXPECT_EQ(Traits::Name(kept), "web-0");
  EXPECT_EQ(Traits::Uid(kept), "u-1");
  EXPECT_EQ(Traits::ResourceVersion(kept), "41");
}

TEST_F(ObjectPackerTest, KeepsWhatComesEncodedAndDecodesItOnceForAllWhoHaveIt) {
  ObjectPacker<Pod> packer({}, &codec_);
  std::shared_ptr<const KeptObject<Pod>> kept;
  {
    // What was packed is a copy.
    const std::string text = MakePod().SerializeAsString();
    auto packed = packer.Pack(text, {});
    ASSERT_TRUE(packed.ok()) << packed.status();
    EXPECT_TRUE(packed->accepted);
    kept = std::move(packed->object);
  }
  ExpectNames(*kept);
  std::shared_ptr<const Pod> first = kept->Decode();
  EXPECT_EQ(first->status().phase(), "Running");
  EXPECT_EQ(kept->Decode(), first);
  const std::weak_ptr<const Pod> gone = first;
  first = nullptr;
  EXPECT_TRUE(gone.expired()) << "decoded, and kept though nobody has it";
  EXPECT_EQ(kept->Decode()->status().phase(), "Running");
}

TEST_F(ObjectPackerTest, KeepsForAWhileWhatIsWantedDecoded) {
  ObjectPacker<Pod> packer({}, &codec_);
  const std::string text = MakePod().SerializeAsString();
  const auto wanted = packer.Pack(text, {.wanted = true});
  ASSERT_TRUE(wanted.ok());
  const std::weak_ptr<const Pod> decoded = wanted->object->Decode();
  EXPECT_FALSE(decoded.expired());
  for (int i = 0; i < 64; ++i) ASSERT_TRUE(packer.Pack(text, {.wanted = true}).ok());
  EXPECT_TRUE(decoded.expired());
  ExpectNames(*wanted->object);
}

TEST_F(ObjectPackerTest, FiltersAndIndexesWithoutKeepingWhatItDecodesForThat) {
  PackingOptions<Pod> options;
  options.filters.accepts = [](const Pod& pod) { return pod.status().phase() == "Running"; };
  options.indexes["app"] = [](const Pod& pod) {
    return std::vector<std::string>{pod.metadata().labels().at("app")};
  };
  options.indexes["none"] = [](const Pod&) { return std::vector<std::string>(); };
  ObjectPacker<Pod> packer(std::move(options), &codec_);
  const auto refused = packer.Pack(MakePod("Failed").SerializeAsString(), {});
  ASSERT_TRUE(refused.ok());
  EXPECT_FALSE(refused->accepted);
  EXPECT_EQ(refused->object, nullptr);
  const auto told = packer.Pack(MakePod("Failed").SerializeAsString(), {.refused_too = true});
  ASSERT_TRUE(told.ok());
  EXPECT_FALSE(told->accepted);
  ExpectNames(*told->object);
  const auto accepted = packer.Pack(MakePod().SerializeAsString(), {});
  ASSERT_TRUE(accepted.ok());
  EXPECT_TRUE(accepted->accepted);
  EXPECT_EQ(accepted->object->index_values(), (IndexValues{{"web"}, {}}));
}

TEST_F(ObjectPackerTest, NothingOfOneObjectGetsIntoTheNext) {
  PackingOptions<Pod> options;
  options.indexes["all"] = [](const Pod& pod) {
    return std::vector<std::string>{pod.SerializeAsString()};
  };
  ObjectPacker<Pod> packer(std::move(options), &codec_);
  Pod small;
  small.mutable_metadata()->set_name("small");
  ASSERT_TRUE(packer.Pack(MakePod().SerializeAsString(), {}).ok());
  const auto packed = packer.Pack(small.SerializeAsString(), {});
  ASSERT_TRUE(packed.ok());
  EXPECT_EQ(packed->object->index_values(), (IndexValues{{small.SerializeAsString()}}));
  EXPECT_EQ(packed->object->uid(), "");
}

TEST_F(ObjectPackerTest, KeepsDecodedWhatIsTransformedOrAskedFor) {
  PackingOptions<Pod> options;
  options.filters.transform = [](std::shared_ptr<const Pod> pod) {
    auto less = std::make_shared<Pod>(*pod);
    less->mutable_metadata()->clear_labels();
    return less;
  };
  ObjectPacker<Pod> transforms(std::move(options), &codec_);
  const auto transformed = transforms.Pack(MakePod().SerializeAsString(), {});
  ASSERT_TRUE(transformed.ok());
  ExpectNames(*transformed->object);
  EXPECT_TRUE(transformed->object->Decode()->metadata().labels().empty());
  PackingOptions<Pod> keeping;
  keeping.keep_decoded = true;
  ObjectPacker<Pod> keeps(std::move(keeping), &codec_);
  const auto kept = keeps.Pack(MakePod().SerializeAsString(), {});
  ASSERT_TRUE(kept.ok());
  const std::weak_ptr<const Pod> decoded = kept->object->Decode();
  EXPECT_FALSE(decoded.expired());
  ExpectNames(*kept->object);
}

TEST_F(ObjectPackerTest, MetadataInPiecesIsReadAsProtobufReadsIt) {
  // Fields of a message that comes twice are merged.
  Pod first, second;
  first.mutable_metadata()->set_name("first");
  first.mutable_metadata()->set_uid("u-1");
  second.mutable_metadata()->set_name("second");
  ObjectPacker<Pod> packer({}, &codec_);
  const auto packed = packer.Pack(first.SerializeAsString() + second.SerializeAsString(), {});
  ASSERT_TRUE(packed.ok());
  EXPECT_EQ(packed->object->name(), "second");
  EXPECT_EQ(packed->object->uid(), "u-1");
}

TEST_F(ObjectPackerTest, RefusesWhatCannotBeDecodedWhenItComes) {
  ObjectPacker<Pod> packer({}, &codec_);
  // Good metadata, and a spec that is none.
  std::string text = MakePod().SerializeAsString();
  text += std::string("\x12\x02\x0a\x05", 4);
  EXPECT_FALSE(packer.Pack(text, {}).ok());
  EXPECT_FALSE(packer.Pack(text, {.wanted = true}).ok());
  EXPECT_FALSE(packer.Pack("sesame", {}).ok());
  EXPECT_TRUE(packer.Pack(MakePod().SerializeAsString(), {}).ok());
}

}  // namespace
}  // namespace capstan::kube
