// What every MigDevices must do. Instantiate with
//   INSTANTIATE_TEST_SUITE_P(Name, MigDevicesConformanceTest, ::testing::Values(&MakeBench));
#ifndef CAPSTAN_SERVICES_NODE_AGENT_PORTS_MIG_DEVICES_CONFORMANCE_H_
#define CAPSTAN_SERVICES_NODE_AGENT_PORTS_MIG_DEVICES_CONFORMANCE_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "proto/capstan/type/v1/task.pb.h"
#include "services/node_agent/ports/mig_devices.h"
#include "services/node_agent/ports/mig_devices_bench.h"

namespace capstan::node_agent {

class MigDevicesConformanceTest
    : public ::testing::TestWithParam<std::unique_ptr<MigDevicesBench> (*)()> {
 protected:
  using MigInstance = capstan::type::v1::MigInstance;
  using Made = absl::StatusOr<std::string>;

  MigDevicesConformanceTest() : bench_(GetParam()()) {}

  static MigInstance Instance(int gpu, const std::string& profile, int start,
                              const std::string& model = "H100-80GB") {
    MigInstance instance;
    instance.set_gpu(gpu);
    instance.set_model(model);
    instance.set_profile(profile);
    instance.set_start(start);
    return instance;
  }

  Made Make(const MigInstance& instance, std::vector<MigInstance> others = {}) {
    Made made = absl::UnknownError("no answer");
    MakeMigInstance order;
    order.instance = instance;
    order.others = std::move(others);
    bench_->devices().Make(order, [&made](Made answer) { made = std::move(answer); });
    bench_->Run();
    return made;
  }

  absl::Status Remove(const MigInstance& instance) {
    absl::Status removed = absl::UnknownError("no answer");
    bench_->devices().Remove(instance, [&removed](absl::Status answer) { removed = answer; });
    bench_->Run();
    return removed;
  }

  const std::unique_ptr<MigDevicesBench> bench_;
};

TEST_P(MigDevicesConformanceTest, MakingIsIdempotentOverRestartsOfTheAgent) {
  const Made first = Make(Instance(0, "3g.40gb", 4));
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->substr(0, 4), "MIG-") << "what CUDA takes";
  EXPECT_EQ(Make(Instance(0, "3g.40gb", 4)).value(), *first);
  bench_->RestartAgent();
  EXPECT_EQ(Make(Instance(0, "3g.40gb", 4)).value(), *first);
}

TEST_P(MigDevicesConformanceTest, InstancesHaveNamesOfTheirOwn) {
  const std::string high = Make(Instance(0, "3g.40gb", 4)).value();
  const std::string low = Make(Instance(0, "3g.40gb", 0), {Instance(0, "3g.40gb", 4)}).value();
  const std::string other = Make(Instance(1, "3g.40gb", 0)).value();
  EXPECT_NE(high, low);
  EXPECT_NE(low, other);
  EXPECT_EQ(Make(Instance(0, "3g.40gb", 4), {Instance(0, "3g.40gb", 0)}).value(), high)
      << "the second did not touch the first";
}

TEST_P(MigDevicesConformanceTest, TheWholeGpuAndItsSmallestPartsCanBeMade) {
  EXPECT_TRUE(Make(Instance(0, "7g.80gb", 0)).ok());
  std::vector<MigInstance> others;
  for (int start = 0; start < 7; ++start) {
    const MigInstance one = Instance(1, start == 3 ? "1g.10gb+me" : "1g.10gb", start);
    const Made made = Make(one, others);
    EXPECT_TRUE(made.ok()) << start << ": " << made.status();
    others.push_back(one);
  }
}

TEST_P(MigDevicesConformanceTest, WhatIsNotThereIsRemoved) {
  EXPECT_TRUE(Remove(Instance(0, "3g.40gb", 4)).ok());
  ASSERT_TRUE(Make(Instance(0, "3g.40gb", 4)).ok());
  EXPECT_TRUE(Remove(Instance(0, "3g.40gb", 4)).ok());
  EXPECT_TRUE(Remove(Instance(0, "3g.40gb", 4)).ok());
  EXPECT_TRUE(Remove(Instance(2, "3g.40gb", 4)).ok()) << "none stands where there is no MIG mode";
  EXPECT_TRUE(Remove(Instance(3, "3g.40gb", 4)).ok()) << "nor where there is no GPU";
}

TEST_P(MigDevicesConformanceTest, OnlyTheVeryInstanceIsRemoved) {
  const std::string name = Make(Instance(0, "1g.10gb", 4)).value();
  EXPECT_TRUE(Remove(Instance(0, "1g.20gb", 4)).ok());
  EXPECT_TRUE(Remove(Instance(0, "1g.10gb", 5)).ok());
  EXPECT_TRUE(Remove(Instance(1, "1g.10gb", 4)).ok());
  EXPECT_EQ(Make(Instance(0, "1g.10gb", 4)).value(), name);
}

TEST_P(MigDevicesConformanceTest, APlaceThatAnotherTaskHasIsWaitedFor) {
  const MigInstance wanted = Instance(0, "3g.40gb", 4);
  EXPECT_TRUE(absl::IsUnavailable(Make(wanted, {wanted}).status())) << "it is not even made yet";
  const MigInstance part = Instance(0, "1g.10gb", 5);
  const std::string name = Make(part).value();
  EXPECT_TRUE(absl::IsUnavailable(Make(wanted, {part}).status()));
  EXPECT_EQ(Make(part).value(), name) << "what the other has stands";
  EXPECT_TRUE(Make(wanted, {Instance(0, "1g.10gb", 3), Instance(1, "3g.40gb", 4)}).ok())
      << "beside it, and on another GPU";
}

TEST_P(MigDevicesConformanceTest, WhatNobodyHasMakesWay) {
  ASSERT_TRUE(Make(Instance(0, "1g.10gb", 1)).ok());
  ASSERT_TRUE(Make(Instance(0, "3g.40gb", 4), {Instance(0, "1g.10gb", 1)}).ok());
  EXPECT_TRUE(Make(Instance(0, "7g.80gb", 0)).ok());
  EXPECT_TRUE(Make(Instance(0, "2g.20gb", 2)).ok());
  // There is one set of media engines.
  ASSERT_TRUE(Make(Instance(1, "1g.10gb+me", 1)).ok());
  EXPECT_TRUE(Make(Instance(1, "1g.10gb+me", 2)).ok());
}

TEST_P(MigDevicesConformanceTest, WhatThereIsNoneOfIsRefused) {
  const auto refused = [this](const MigInstance& instance) {
    const absl::Status status = Make(instance).status();
    return absl::IsFailedPrecondition(status) && !status.message().empty();
  };
  EXPECT_TRUE(refused(Instance(2, "3g.40gb", 4))) << "not in MIG mode";
  EXPECT_TRUE(refused(Instance(3, "3g.40gb", 4))) << "no such GPU";
  EXPECT_TRUE(refused(Instance(0, "3g.20gb", 4, "A100-40GB"))) << "another model";
  EXPECT_TRUE(refused(Instance(0, "3g.40gb", 4, "H999"))) << "no such model";
  EXPECT_TRUE(refused(Instance(0, "3g.20gb", 4))) << "another model's profile";
  EXPECT_TRUE(refused(Instance(0, "3g.40gb", 2))) << "none may stand there";
  EXPECT_TRUE(refused(Instance(0, "3g.40gb", -4)));
}

TEST_P(MigDevicesConformanceTest, CallsTakeEffectInOrderAndAreAnsweredLater) {
  std::string answers;
  MakeMigInstance order;
  order.instance = Instance(0, "7g.80gb", 0);
  bench_->devices().Make(order, [&](const Made& made) { answers += made.ok() ? "a" : "A"; });
  bench_->devices().Remove(order.instance,
                           [&](const absl::Status& done) { answers += done.ok() ? "b" : "B"; });
  order.instance = Instance(0, "1g.10gb", 3);
  Made last = absl::UnknownError("no answer");
  bench_->devices().Make(order, [&](const Made& made) {
    answers += made.ok() ? "c" : "C";
    last = made;
  });
  EXPECT_EQ(answers, "") << "never inline";
  bench_->Run();
  EXPECT_EQ(answers, "abc");
  EXPECT_EQ(Make(order.instance).value(), *last);
}

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_PORTS_MIG_DEVICES_CONFORMANCE_H_
