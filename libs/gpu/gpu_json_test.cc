#include "libs/gpu/gpu_json.h"

#include "gtest/gtest.h"

namespace capstan::gpu {
namespace {

TEST(GpuJsonTest, SaysWhatIsKnown) {
  Gpu gpu{
      .index = 1, .uuid = "GPU-a", .product = "NVIDIA H200", .memory_bytes = int64_t{143771} << 20};
  gpu.mig = MigMode{true, false};
  gpu.profiles = {{9, ProfileKind::kPlain, "3g.71gb", 3, 2, 5, {{{0, 4}, {4, 4}}}}};
  gpu.instances = {{{2, 9, {4, 4}}}};
  EXPECT_EQ(GpuJson(gpu),
            "{\"index\":1,\"uuid\":\"GPU-a\",\"product\":\"NVIDIA H200\","
            "\"memory_bytes\":150754820096,\"model\":\"H200-141GB\","
            "\"mig\":{\"now\":true,\"pending\":false},"
            "\"profiles\":[{\"id\":9,\"kind\":\"plain\",\"name\":\"3g.71gb\",\"compute_slices\":3,"
            "\"most\":2,\"memory_bytes\":5,\"starts\":[0,4],\"memory_slices\":4}],"
            "\"instances\":[{\"id\":2,\"profile\":9,\"start\":4,\"size\":4}]}");
}

TEST(GpuJsonTest, LeavesOutWhatIsNot) {
  Gpu gpu{.index = 0, .fault = Fault::kRowsFailed};
  EXPECT_EQ(GpuJson(gpu),
            "{\"index\":0,\"fault\":\"rows of its memory could not be remapped; have it "
            "replaced\"}");
  // Bytes that are no UTF-8 make no invalid JSON.
  gpu = {.index = 0, .product = "\xff"};
  EXPECT_EQ(GpuJson(gpu), "{\"index\":0,\"product\":\"\\ufffd\"}");
}

TEST(GpuJsonTest, SaysWhoUsesADevice) {
  EXPECT_EQ(DeviceUseJson({"GPU-a", 12.0, {{7, 100}, {8, absl::nullopt}}}),
            "{\"uuid\":\"GPU-a\",\"busy_percent\":12.0,\"processes\":[{\"pid\":7,"
            "\"memory_bytes\":100},{\"pid\":8}]}");
}

}  // namespace
}  // namespace capstan::gpu
