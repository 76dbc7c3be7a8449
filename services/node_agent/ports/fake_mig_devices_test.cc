#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "libs/strand/simulated_strand.h"
#include "libs/time/simulated_clock.h"
#include "proto/capstan/type/v1/task.pb.h"
#include "services/node_agent/ports/fake_ports.h"
#include "services/node_agent/ports/mig_devices_bench.h"
#include "services/node_agent/ports/mig_devices_conformance.h"

namespace capstan::node_agent {
namespace {

class FakeBench final : public MigDevicesBench {
 public:
  FakeBench() : strand_(&clock_), devices_(&strand_) {
    devices_.gpus.emplace(2);
    for (int index : {0, 1}) {
      (*devices_.gpus)[index].set_index(index);
      (*devices_.gpus)[index].set_model("H100-80GB");
    }
  }
  MigDevices& devices() override { return devices_; }
  void Run() override { strand_.RunReady(); }
  void RestartAgent() override {}

 private:
  SimulatedClock clock_;
  SimulatedStrand strand_;
  FakeMigDevices devices_;
};

std::unique_ptr<MigDevicesBench> MakeBench() { return std::make_unique<FakeBench>(); }

INSTANTIATE_TEST_SUITE_P(Fake, MigDevicesConformanceTest, ::testing::Values(&MakeBench));

}  // namespace
}  // namespace capstan::node_agent
