#include "libs/gpu/gpu_model.h"

#include "absl/strings/ascii.h"
#include "gtest/gtest.h"
#include "libs/mig/profiles.h"

namespace capstan::gpu {
namespace {

struct Row {
  const char* product;
  // As the driver tells it, which nvidia-smi prints.
  int64_t memory_mib;
  const char* model;
};

TEST(GpuModelTest, ProductAndMemoryMakeTheNameThatIsSold) {
  for (const Row& row :
       {Row{"NVIDIA H100 80GB HBM3", 81559, "H100-80GB"},
        Row{"NVIDIA H100 PCIe", 81559, "H100-80GB"}, Row{"NVIDIA H100 NVL", 95830, "H100-94GB"},
        Row{"NVIDIA H200", 143771, "H200-141GB"}, Row{"NVIDIA A100-SXM4-40GB", 40960, "A100-40GB"},
        Row{"NVIDIA A100-PCIE-40GB", 40536, "A100-40GB"},
        Row{"NVIDIA A100-SXM4-80GB", 81920, "A100-80GB"},
        Row{"NVIDIA A100 80GB PCIe", 81251, "A100-80GB"}, Row{"NVIDIA A30", 24258, "A30-24GB"},
        Row{"NVIDIA B200", 183359, "B200-180GB"}, Row{"NVIDIA GB200", 189471, "GB200-186GB"},
        Row{"NVIDIA B300 SXM6 AC", 275040, "B300-269GB"},
        // The memory in its name is the CPU's.
        Row{"NVIDIA GH200 480GB", 97871, "GH200-96GB"}, Row{"NVIDIA L4", 23034, "L4-23GB"},
        Row{"NVIDIA RTX A6000", 49140, "RTX-A6000-48GB"},
        Row{"Tesla V100-SXM2-32GB", 32768, "TESLA-V100-32GB"},
        Row{"NVIDIA Graphics Device", 1024, "GRAPHICS-DEVICE-1GB"}}) {
    EXPECT_EQ(ModelName(row.product, row.memory_mib << 20), row.model) << row.product;
  }
  EXPECT_EQ(ModelName("", 1), "");
  EXPECT_EQ(ModelName("NVIDIA", 1), "");
  EXPECT_EQ(ModelName("NVIDIA H200", 0), "");
}

// One model has one name, whether its GPUs are whole or in MIG mode.
TEST(GpuModelTest, WholeGpusAndSlicesAreNamedAlike) {
  for (const mig::DeviceModel& model : mig::DeviceModels()) {
    EXPECT_EQ(WholeGpuResource(model.name), "nvidia.com/" + absl::AsciiStrToLower(model.name));
    EXPECT_EQ(mig::SliceResource(model), "mig/" + absl::AsciiStrToLower(model.name));
  }
  EXPECT_TRUE(IsWholeGpuResource("nvidia.com/h100-80gb"));
  EXPECT_FALSE(IsWholeGpuResource("example.com/h100-80gb"));
}

}  // namespace
}  // namespace capstan::gpu
