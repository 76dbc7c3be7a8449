// The adapters that look at and change this machine.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>

#include "libs/gpu/device_inventory.h"
#include "libs/gpu/fake_device_inventory.h"
#include "libs/log/log.h"
#include "libs/log/testing_sink.h"
#include "libs/safe_path/safe_path.h"
#include "libs/strand/simulated_strand.h"
#include "libs/time/simulated_clock.h"
#include "services/node_agent/adapters/bind_port_probe.h"
#include "services/node_agent/adapters/gpu_watch.h"
#include "services/node_agent/adapters/local_workspace.h"
#include "services/node_agent/adapters/machine_probe.h"

namespace capstan::node_agent {
namespace {

std::string TempFolder() {
  std::string folder = testing::TempDir() + "/localXXXXXX";
  EXPECT_NE(mkdtemp(folder.data()), nullptr);
  return folder;
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(LocalWorkspaceTest, CopiesTheBundlePrivatelyAndStartsFromNothing) {
  SimulatedClock clock;
  SimulatedStrand strand(&clock);
  const auto workspace = MakeLocalWorkspace(&strand, &strand);
  const std::string root = TempFolder();
  const std::string bundle = root + "/bundle";
  mkdir(bundle.c_str(), 0755);
  mkdir((bundle + "/lib").c_str(), 0755);
  std::ofstream(bundle + "/train.py") << "print(1)";
  std::ofstream(bundle + "/lib/a.py") << "a = 1";
  chmod((bundle + "/train.py").c_str(), 0755);
  Furnish order{session::TaskId{"job", 1, "w", 0}, 1, root, 0, bundle, root + "/staging"};
  for (int i = 0; i < 2; ++i) {
    absl::Status status = absl::UnknownError("not answered");
    workspace->Furnish(order, [&status](absl::Status done) { status = done; });
    strand.RunReady();
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(ReadFile(root + "/work/train.py"), "print(1)");
    EXPECT_EQ(ReadFile(root + "/work/lib/a.py"), "a = 1");
    EXPECT_EQ(access((root + "/work/train.py").c_str(), X_OK), 0);
    EXPECT_NE(access((root + "/work/extra").c_str(), F_OK), 0);
    EXPECT_EQ(access((root + "/staging").c_str(), W_OK), 0);
    // What a Task does to its copy harms neither the Bundle nor the next try.
    std::ofstream(root + "/work/train.py") << "changed";
    std::ofstream(root + "/work/extra") << "x";
    EXPECT_EQ(ReadFile(bundle + "/train.py"), "print(1)");
  }
  absl::Status status = absl::UnknownError("not answered");
  workspace->DiscardOutput(root + "/staging", [&status](absl::Status done) { status = done; });
  strand.RunReady();
  EXPECT_TRUE(status.ok());
  EXPECT_NE(access((root + "/staging").c_str(), F_OK), 0);
  workspace->DiscardOutput(root + "/gone/staging", [&status](absl::Status done) { status = done; });
  strand.RunReady();
  EXPECT_TRUE(status.ok());
}

TEST(BindPortProbeTest, FindsThePortThatIsInUse) {
  const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(listen(fd.get(), 1), 0);
  socklen_t size = sizeof(address);
  getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size);
  const int32_t port = ntohs(address.sin_port);
  BindPortProbe probe;
  EXPECT_EQ(probe.Taken({port}).value(), (std::vector<int32_t>{port}));
  const auto range = LocalPortRange();
  EXPECT_LT(range.first, range.second);
}

TEST(MachineProbeTest, SaysWhatTheMachineIs) {
  SimulatedClock clock;
  SimulatedStrand strand(&clock);
  const std::string folder = TempFolder();
  MachineProbeConfig config;
  config.node = "n1";
  config.data_folder = folder;
  config.accelerators = {{"test/gpu", 2}};
  config.mig_gpus.emplace_back().set_model("H100-80GB");
  config.taints.emplace_back().set_key("team");
  const auto probe = MakeMachineProbe(config, &strand, &strand);
  capstan::type::v1::NodeObservation seen;
  probe->Observe([&seen](capstan::type::v1::NodeObservation node) { seen = node; });
  strand.RunReady();
  EXPECT_EQ(seen.node(), "n1");
  EXPECT_GT(seen.allocatable().cpu_millis(), 0);
  EXPECT_GT(seen.allocatable().memory_bytes(), 0);
  EXPECT_EQ(seen.allocatable().accelerators().at("test/gpu"), 2);
  ASSERT_EQ(seen.mig_gpus_size(), 1);
  EXPECT_EQ(seen.mig_gpus(0).model(), "H100-80GB");
  ASSERT_EQ(seen.taints_size(), 1);
  EXPECT_EQ(seen.taints(0).key(), "team");
  EXPECT_EQ(seen.preflight_message(), "");
  EXPECT_EQ(seen.boot_id(), ReadBootId().value());
  EXPECT_GT(seen.disk_total_bytes(), 0);
}

TEST(MachineProbeTest, OffersTheGpusThatAreFoundBesideThoseDeclared) {
  SimulatedClock clock;
  SimulatedStrand strand(&clock);
  SimulatedStrand driver(&clock);
  log::TestingSink sink;
  const log::Logger logger("test", &clock, &sink);
  gpu::FakeDeviceInventory::Machine machine;
  machine.gpus.resize(2);
  for (gpu::Gpu& gpu : machine.gpus) {
    gpu.product = "NVIDIA H200";
    gpu.memory_bytes = int64_t{143771} << 20;
  }
  GpuWatch gpus(
      {}, [&machine] { return std::make_unique<gpu::FakeDeviceInventory>(&machine); }, &strand,
      &driver, &logger);
  MachineProbeConfig config;
  config.data_folder = TempFolder();
  config.accelerators = {{"test/gpu", 2}};
  const auto probe = MakeMachineProbe(config, &strand, &strand, &gpus);
  capstan::type::v1::NodeObservation seen;
  const auto observe = [&] {
    seen.Clear();
    probe->Observe([&seen](capstan::type::v1::NodeObservation node) { seen = node; });
  };
  observe();
  driver.RunReady();
  strand.RunReady();
  EXPECT_EQ(seen.allocatable().accelerators().at("test/gpu"), 2);
  EXPECT_EQ(seen.allocatable().accelerators().at("nvidia.com/h200-141gb"), 2);
  // A driver that hangs holds the look up for a while only.
  observe();
  strand.RunReady();
  EXPECT_FALSE(seen.has_allocatable());
  strand.Advance(absl::Seconds(5));
  EXPECT_EQ(seen.allocatable().accelerators().at("nvidia.com/h200-141gb"), 2);
  // One is lost: at the next look it does not count.
  machine.gpus[1].fault = gpu::Fault::kLost;
  driver.RunReady();
  strand.RunReady();
  observe();
  driver.RunReady();
  strand.RunReady();
  EXPECT_EQ(seen.allocatable().accelerators().at("nvidia.com/h200-141gb"), 1);
}

TEST(MachineProbeTest, BrokenDataFolderFailsPreflight) {
  SimulatedClock clock;
  SimulatedStrand strand(&clock);
  MachineProbeConfig config;
  config.node = "n1";
  config.data_folder = TempFolder() + "/absent";
  const auto probe = MakeMachineProbe(config, &strand, &strand);
  capstan::type::v1::NodeObservation seen;
  probe->Observe([&seen](capstan::type::v1::NodeObservation node) { seen = node; });
  strand.RunReady();
  EXPECT_NE(seen.preflight_message(), "");
  EXPECT_EQ(seen.limitations(0), capstan::type::v1::NodeObservation::LIMITATION_PREFLIGHT_FAILED);
}

TEST(AllocatableTest, KeepsTheReserveOrHalf) {
  EXPECT_EQ(Allocatable(2000, 500), 1500);
  EXPECT_EQ(Allocatable(600, 500), 300);
}

}  // namespace
}  // namespace capstan::node_agent
