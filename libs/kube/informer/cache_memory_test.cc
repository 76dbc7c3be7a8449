// Holds what informer.h says of memory to what the allocator says. Not under sanitizers, whose
// allocators are others.
#include <malloc.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "libs/kube/informer/cache.h"
#include "libs/kube/informer/kept_object.h"
#include "libs/kube/informer/object_packer.h"
#include "libs/kube/objects/object_traits.h"
#include "libs/kube/objects/proto/core_v1_pod.pb.h"
#include "libs/kube/objects/proto_traits.h"
#include "libs/kube/objects/protobuf_codec.h"
#include "libs/kube/objects/resources.h"

namespace capstan::kube {

struct Thing {
  std::string name;
  std::string label;
};

template <>
struct ObjectTraits<Thing> {
  static absl::string_view Namespace(const Thing&) { return "ns"; }
  static absl::string_view Name(const Thing& t) { return t.name; }
  static absl::string_view Uid(const Thing& t) { return t.name; }
  static absl::string_view ResourceVersion(const Thing&) { return "1"; }
};

namespace {

constexpr size_t kObjects = 100000;

double BytesInUse() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<double>(info.uordblks + info.hblkhd);
}

// Of the cache, an object.
double Measure(bool with_index) {
  std::vector<std::shared_ptr<const Thing>> objects;
  for (size_t i = 0; i < kObjects; ++i) {
    objects.push_back(std::make_shared<const Thing>(
        Thing{absl::StrCat("object-", i), absl::StrCat("label-", i % 1000)}));
  }
  const double before = BytesInUse();
  Cache<Thing>::Options options;
  if (with_index) {
    options.indexes["label"] = [](const Thing& t) { return std::vector<std::string>{t.label}; };
  }
  Cache<Thing> cache(std::move(options));
  cache.Replace(objects);
  return (BytesInUse() - before) / kObjects;
}

double MeasureControlBlock() {
  std::vector<std::shared_ptr<const Thing>> shared;
  shared.reserve(kObjects);
  const double begin = BytesInUse();
  for (size_t i = 0; i < kObjects; ++i) shared.push_back(std::make_shared<const Thing>());
  return (BytesInUse() - begin) / kObjects - sizeof(Thing);
}

// Of a kept object beside its bytes; with one index of one value of eight bytes.
double MeasureKept(bool with_index) {
  PackingOptions<core_v1::Pod> options;
  if (with_index) {
    options.indexes["node"] = [](const core_v1::Pod&) {
      return std::vector<std::string>{"node-123"};
    };
  }
  const ProtobufCodec<core_v1::Pod> codec(kPods.type());
  ObjectPacker<core_v1::Pod> packer(std::move(options), &codec);
  core_v1::Pod pod;
  pod.mutable_metadata()->set_name("object");
  for (int i = 0; i < 20; ++i) {
    pod.mutable_spec()->add_containers()->set_image("registry.example.org/team/trainer");
  }
  const std::string text = pod.SerializeAsString();
  std::vector<std::shared_ptr<const KeptObject<core_v1::Pod>>> kept;
  kept.reserve(kObjects);
  const double before = BytesInUse();
  for (size_t i = 0; i < kObjects; ++i) kept.push_back(packer.Pack(text, {}).value().object);
  return (BytesInUse() - before) / kObjects - static_cast<double>(text.size());
}

TEST(CacheMemoryTest, AKeptObjectCostsWhatTheInformerSays) {
  const double bare = MeasureKept(false);
  const double indexed = MeasureKept(true);
  EXPECT_LE(bare, 224) << "a kept object beside its bytes";
  EXPECT_LE(indexed - bare, 112) << "an index with a value";
}

TEST(CacheMemoryTest, AnObjectCostsWhatTheInformerSays) {
  const double object = Measure(false);
  const double index_value = Measure(true) - object;
  const double control_block = MeasureControlBlock();
  EXPECT_LT(object, 40) << "the place in the cache";
  EXPECT_LE(control_block, 32) << "make_shared and the allocator's own";
  EXPECT_LT(index_value, 48) << "one index value";
}

}  // namespace
}  // namespace capstan::kube
