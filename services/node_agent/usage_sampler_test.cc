#include "services/node_agent/usage_sampler.h"

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "gtest/gtest.h"
#include "libs/strand/simulated_strand.h"
#include "libs/time/proto_time.h"
#include "libs/time/simulated_clock.h"
#include "proto/capstan/telemetry/v1/usage.pb.h"
#include "services/node_agent/ports/fake_ports.h"

namespace capstan::node_agent {
namespace {

using capstan::telemetry::v1::Record;
using capstan::telemetry::v1::TaskUsage;
using session::TaskId;

const TaskId kA{"uid", 2, "w", 1};
const TaskId kB{"uid", 2, "w", 2};
constexpr char kJob[] = "projects/p/jobs/j";
constexpr char kStream[] = "projects/p/jobs/j/streams/usage";

ShipLogs Order(const TaskId& id, int32_t rank) {
  ShipLogs order{id, kJob, "/folder", rank, false};
  order.cgroup.set_v2("/groups/" + id.Path());
  return order;
}

TaskUsage Payload(const Record& record) {
  TaskUsage usage;
  EXPECT_TRUE(usage.ParseFromString(record.payload()));
  return usage;
}

// Answers when it is told to.
class SlowSink final : public LogSink {
 public:
  void Append(const std::string& stream, std::vector<Record> records,
              absl::AnyInvocable<void(absl::Status)> done) override {
    calls.emplace_back(stream, std::move(records));
    waiting.push_back(std::move(done));
  }
  std::vector<std::pair<std::string, std::vector<Record>>> calls;
  std::vector<absl::AnyInvocable<void(absl::Status)>> waiting;
};

class UsageSamplerTest : public testing::Test {
 protected:
  UsageSamplerTest() : strand_(&clock_), sink_(&strand_) { Use(&sink_); }

  void Use(LogSink* sink) {
    sampler_ = std::make_unique<UsageSampler>(
        UsageSampler::Options{.producer = "c1/n1"}, &strand_, &strand_, sink,
        [this](const capstan::nodeagent::v1::ShimSpec::Cgroup& group) {
          return usage_[group.v2()];
        },
        nullptr);
  }
  cgroup::Usage& Of(const TaskId& id) { return usage_["/groups/" + id.Path()]; }
  const std::vector<Record>& Sent() { return sink_.streams[kStream]; }

  SimulatedClock clock_;
  SimulatedStrand strand_;
  FakeLogSink sink_;
  std::map<std::string, cgroup::Usage> usage_;
  std::unique_ptr<UsageSampler> sampler_;
};

TEST_F(UsageSamplerTest, TheRateIsOfTheTimeSinceTheSampleBefore) {
  Of(kA) = {.cpu_time = absl::Seconds(10), .memory_bytes = 1 << 20, .processes = 3};
  sampler_->Watch(Order(kA, 7));
  strand_.RunReady();
  ASSERT_EQ(Sent().size(), 1u);
  EXPECT_EQ(Sent()[0].kind(), "usage");
  EXPECT_EQ(Sent()[0].attributes().at("rank"), "7");
  EXPECT_EQ(Sent()[0].attributes().at("generation"), "2");
  EXPECT_EQ(Sent()[0].key(), "2/w-1");
  const TaskUsage first = Payload(Sent()[0]);
  EXPECT_FALSE(first.has_cpu_millis());
  EXPECT_FALSE(first.has_interval());
  EXPECT_EQ(ToDuration(first.cpu_time()), absl::Seconds(10));
  EXPECT_EQ(first.memory_bytes(), 1 << 20);
  EXPECT_EQ(first.processes(), 3);
  EXPECT_FALSE(first.has_memory_peak_bytes());
  EXPECT_FALSE(first.has_io_read_bytes());

  // The first rate comes soon, then at leisure.
  Of(kA).cpu_time = absl::Milliseconds(10'250);
  strand_.Advance(absl::Seconds(1));
  ASSERT_EQ(Sent().size(), 2u);
  EXPECT_EQ(Payload(Sent()[1]).cpu_millis(), 250);
  EXPECT_EQ(ToDuration(Payload(Sent()[1]).interval()), absl::Seconds(1));
  Of(kA).cpu_time = absl::Milliseconds(20'250);
  strand_.Advance(absl::Seconds(4));
  EXPECT_EQ(Sent().size(), 2u);
  strand_.Advance(absl::Seconds(1));
  ASSERT_EQ(Sent().size(), 3u);
  EXPECT_EQ(Payload(Sent()[2]).cpu_millis(), 2000);
  EXPECT_GT(Sent()[2].producer_sequence(), Sent()[1].producer_sequence());
}

TEST_F(UsageSamplerTest, ARepeatedOrderAndALaterTaskDoNotDisturbTheOthers) {
  Of(kA) = {.cpu_time = absl::ZeroDuration()};
  Of(kB) = {.cpu_time = absl::ZeroDuration()};
  sampler_->Watch(Order(kA, 0));
  strand_.Advance(absl::Seconds(1));
  sampler_->Watch(Order(kA, 0));
  strand_.RunReady();
  ASSERT_EQ(Sent().size(), 2u);
  strand_.Advance(absl::Seconds(2));
  sampler_->Watch(Order(kB, 1));
  strand_.RunReady();
  ASSERT_EQ(Sent().size(), 4u) << "both are looked at when one comes";
  EXPECT_EQ(ToDuration(Payload(Sent()[2]).interval()), absl::Seconds(2));
}

TEST_F(UsageSamplerTest, DevicesAreToldOfTheTaskThatHasThem) {
  Of(kA) = {.cpu_time = absl::ZeroDuration()};
  Of(kB) = {.cpu_time = absl::ZeroDuration()};
  UsageSampler::Devices devices = {{kA, {{"GPU-a", 87.0, 5}, {"GPU-b", absl::nullopt, 7}}}};
  std::vector<std::string> looked;
  sampler_->LookAtDevices(&strand_, [&](const UsageSampler::Groups& groups) {
    for (const auto& [id, group] : groups) looked.push_back(group.v2());
    return devices;
  });
  sampler_->Watch(Order(kA, 0));
  sampler_->Watch(Order(kB, 1));
  strand_.Advance(absl::Seconds(1));
  ASSERT_GE(Sent().size(), 4u);
  const TaskUsage first = Payload(Sent()[Sent().size() - 2]);
  ASSERT_EQ(first.accelerators_size(), 2);
  EXPECT_EQ(first.accelerators(0).device(), "GPU-a");
  EXPECT_EQ(first.accelerators(0).busy_percent(), 87);
  EXPECT_EQ(first.accelerators(0).memory_bytes(), 5);
  EXPECT_FALSE(first.accelerators(1).has_busy_percent());
  EXPECT_EQ(Payload(Sent().back()).accelerators_size(), 0);
  EXPECT_EQ(looked.front(), "/groups/" + kA.Path());
  // One that it has left is not shown any more.
  devices.clear();
  strand_.Advance(absl::Seconds(10));
  EXPECT_EQ(Payload(Sent()[Sent().size() - 2]).accelerators_size(), 0);
}

TEST_F(UsageSamplerTest, ADriverThatHangsCostsItsOwnFiguresAlone) {
  SimulatedStrand driver(&clock_);
  Of(kA) = {.cpu_time = absl::ZeroDuration()};
  int looks = 0;
  sampler_->LookAtDevices(&driver, [&](const UsageSampler::Groups&) {
    ++looks;
    return UsageSampler::Devices{{kA, {{"GPU-a", 87.0, 5}}}};
  });
  sampler_->Watch(Order(kA, 0));
  strand_.Advance(absl::Seconds(1));
  driver.RunReady();
  strand_.Advance(absl::Seconds(5));
  EXPECT_EQ(Payload(Sent().back()).accelerators_size(), 1);
  EXPECT_EQ(looks, 1);
  // It does not come back: what was known gets old, the rest goes on, and it is asked no more.
  strand_.Advance(absl::Minutes(1));
  EXPECT_GT(Sent().size(), 10u);
  EXPECT_TRUE(Payload(Sent().back()).has_cpu_millis());
  EXPECT_EQ(Payload(Sent().back()).accelerators_size(), 0);
  EXPECT_EQ(looks, 1);
  driver.RunReady();
  strand_.Advance(absl::Seconds(5));
  EXPECT_EQ(Payload(Sent().back()).accelerators_size(), 1) << "it is back";
}

TEST_F(UsageSamplerTest, WhatHasEndedIsNotLookedAt) {
  Of(kA) = {.cpu_time = absl::ZeroDuration()};
  sampler_->Watch(Order(kA, 0));
  strand_.Advance(absl::Seconds(1));
  sampler_->Drop(kA);
  strand_.Advance(absl::Minutes(1));
  EXPECT_EQ(Sent().size(), 2u);
  sampler_->Watch(Order(kB, 0));
  sampler_->Clear();
  strand_.Advance(absl::Minutes(1));
  EXPECT_EQ(Sent().size(), 2u);
}

TEST_F(UsageSamplerTest, AGroupThatIsGoneOrUnknownHasNoSample) {
  sampler_->Watch(Order(kA, 0));
  sampler_->Watch(ShipLogs{kB, kJob, "/folder", 1, false});
  strand_.Advance(absl::Minutes(1));
  EXPECT_TRUE(Sent().empty());
  // One that comes back is taken up.
  Of(kA) = {.memory_bytes = 5};
  strand_.Advance(absl::Seconds(5));
  ASSERT_EQ(Sent().size(), 1u);
  EXPECT_FALSE(Payload(Sent()[0]).has_cpu_time());
}

TEST_F(UsageSamplerTest, WhileTelemetryHangsSamplesAreDroppedAndNothingPilesUp) {
  SlowSink slow;
  Use(&slow);
  Of(kA) = {.cpu_time = absl::ZeroDuration()};
  sampler_->Watch(Order(kA, 0));
  strand_.Advance(absl::Minutes(10));
  ASSERT_EQ(slow.calls.size(), 1u);
  slow.waiting[0](absl::UnavailableError("gone"));
  Of(kA).cpu_time = absl::Seconds(5);
  strand_.Advance(absl::Seconds(5));
  ASSERT_EQ(slow.calls.size(), 2u) << "the next is tried, not the old ones";
  ASSERT_EQ(slow.calls[1].second.size(), 1u);
  EXPECT_EQ(Payload(slow.calls[1].second[0]).cpu_millis(), 1000);
  sampler_.reset();
}

}  // namespace
}  // namespace capstan::node_agent
