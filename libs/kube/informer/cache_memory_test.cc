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

// As a training job's is.
core_v1::Pod MakePod() {
  core_v1::Pod pod;
  auto& labels = *pod.mutable_metadata()->mutable_labels();
  for (const char* label : {"app", "job", "rank", "queue"}) labels[label] = "value";
  pod.mutable_metadata()->set_name("job-1234-rank-17");
  pod.mutable_metadata()->set_namespace_("research");
  auto* const manager = pod.mutable_metadata()->add_managed_fields();
  manager->set_manager("capstan");
  manager->mutable_fields_v1()->set_raw(std::string(600, 'f'));
  auto* const container = pod.mutable_spec()->add_containers();
  container->set_name("main");
  container->set_image("registry.example.org/team/trainer:1.2.3");
  for (int i = 0; i < 10; ++i) {
    auto* const variable = container->add_env();
    variable->set_name(absl::StrCat("VARIABLE_", i));
    variable->set_value("value");
  }
  for (const char* resource : {"cpu", "memory", "nvidia.com/gpu"}) {
    (*container->mutable_resources()->mutable_limits())[resource].set_string("8");
    (*container->mutable_resources()->mutable_requests())[resource].set_string("8");
  }
  for (int i = 0; i < 3; ++i) {
    pod.mutable_spec()->add_tolerations()->set_key("node.kubernetes.io/not-ready");
    pod.mutable_spec()->add_volumes()->set_name("kube-api-access");
  }
  return pod;
}

class CacheMemoryTest : public testing::Test {
 protected:
  void SetUp() override {
    if (BytesInUse() == 0) GTEST_SKIP() << "a sanitizer's malloc says nothing of what is in use";
  }
};

TEST_F(CacheMemoryTest, WhatIsDecodedCostsAMultipleOfWhatIsKept) {
  const core_v1::Pod pod = MakePod();
  std::vector<std::shared_ptr<const core_v1::Pod>> decoded;
  decoded.reserve(kObjects / 10);
  const double before = BytesInUse();
  const std::string text = pod.SerializeAsString();
  for (size_t i = 0; i < kObjects / 10; ++i) {
    auto copy = std::make_shared<core_v1::Pod>();
    ASSERT_TRUE(copy->ParseFromString(text));
    decoded.push_back(std::move(copy));
  }
  const double bytes = (BytesInUse() - before) / static_cast<double>(decoded.size());
  RecordProperty("encoded", absl::StrCat(text.size()));
  RecordProperty("decoded", absl::StrCat(bytes));
  EXPECT_GT(bytes, 3 * static_cast<double>(text.size())) << text.size() << " bytes encoded";
}

TEST_F(CacheMemoryTest, AKeptObjectCostsWhatTheInformerSays) {
  const double bare = MeasureKept(false);
  const double indexed = MeasureKept(true);
  EXPECT_LE(bare, 224) << "a kept object beside its bytes";
  EXPECT_LE(indexed - bare, 112) << "an index with a value";
}

TEST_F(CacheMemoryTest, AnObjectCostsWhatTheInformerSays) {
  const double object = Measure(false);
  const double index_value = Measure(true) - object;
  const double control_block = MeasureControlBlock();
  EXPECT_LT(object, 40) << "the place in the cache";
  EXPECT_LE(control_block, 32) << "make_shared and the allocator's own";
  EXPECT_LT(index_value, 48) << "one index value";
}

}  // namespace
}  // namespace capstan::kube
