#include "services/node_agent/adapters/declared_mig_devices.h"

#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "libs/strand/simulated_strand.h"
#include "libs/time/simulated_clock.h"
#include "proto/capstan/type/v1/task.pb.h"
#include "services/node_agent/ports/mig_devices_bench.h"
#include "services/node_agent/ports/mig_devices_conformance.h"

namespace capstan::node_agent {
namespace {

class DeclaredBench final : public MigDevicesBench {
 public:
  DeclaredBench() : strand_(&clock_) { RestartAgent(); }
  MigDevices& devices() override { return *devices_; }
  void Run() override { strand_.RunReady(); }
  void RestartAgent() override {
    std::vector<capstan::type::v1::MigGpu> gpus(2);
    for (int index : {0, 1}) {
      gpus[index].set_index(index);
      gpus[index].set_model("H100-80GB");
    }
    devices_ = MakeDeclaredMigDevices(std::move(gpus), &strand_);
  }

 private:
  SimulatedClock clock_;
  SimulatedStrand strand_;
  std::unique_ptr<MigDevices> devices_;
};

std::unique_ptr<MigDevicesBench> MakeBench() { return std::make_unique<DeclaredBench>(); }

INSTANTIATE_TEST_SUITE_P(Declared, MigDevicesConformanceTest, ::testing::Values(&MakeBench));

TEST(DeclaredMigDevicesTest, NamesSayWhereAnInstanceWouldBe) {
  DeclaredBench bench;
  MakeMigInstance order;
  order.instance.set_gpu(1);
  order.instance.set_model("H100-80GB");
  order.instance.set_profile("3g.40gb");
  order.instance.set_start(4);
  absl::StatusOr<std::string> made = absl::UnknownError("no answer");
  bench.devices().Make(order,
                       [&made](absl::StatusOr<std::string> name) { made = std::move(name); });
  bench.Run();
  EXPECT_EQ(made.value(), "MIG-GPU-1/4/3g.40gb");
}

}  // namespace
}  // namespace capstan::node_agent
