#include "services/telemetry/target_inventory.h"

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/log/log.h"
#include "libs/log/testing_sink.h"
#include "libs/metrics/registry.h"
#include "libs/safe_path/safe_path.h"
#include "libs/safe_path/testing/temporary_folder.h"
#include "libs/status/error.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/system_clock.h"

namespace capstan::telemetry {
namespace {

class TargetInventoryTest : public ::testing::Test {
 protected:
  std::unique_ptr<TargetInventory> Open(const std::string& loopback_network = "here") {
    TargetInventory::Options options;
    options.path = absl::StrCat(folder_.path(), "/targets");
    options.loopback_network = loopback_network;
    auto opened = TargetInventory::Open(std::move(options), &strand_, &logger_, &registry_);
    EXPECT_TRUE(opened.ok()) << opened.status();
    return opened.ok() ? *std::move(opened) : nullptr;
  }
  static v1::ReportScrapeTargetRequest At(const std::string& address,
                                          const std::string& network = "here") {
    v1::ReportScrapeTargetRequest request;
    request.set_metrics_address(address);
    request.set_loopback_network(network);
    return request;
  }

  const auth::SpiffeId node_ = auth::SpiffeId::Node("d", "east", "h1");
  TemporaryFolder folder_;
  SystemClock clock_;
  ThreadStrand strand_{"targets", &clock_};
  log::TestingSink sink_;
  log::Logger logger_{"telemetry", &clock_, &sink_};
  metrics::Registry registry_{"telemetry"};
};

TEST_F(TargetInventoryTest, AReportIsListedAtOnce) {
  const auto inventory = Open();
  EXPECT_EQ(inventory->List().targets_size(), 0);
  EXPECT_EQ(inventory->Report(node_, At("10.0.1.1:9106")), absl::OkStatus());
  ASSERT_EQ(inventory->List().targets_size(), 1);
  EXPECT_EQ(inventory->List().targets(0).metrics_address(), "10.0.1.1:9106");
  EXPECT_EQ(registry_.AddGauge("scrape_targets", "").value(), 1);
}

TEST_F(TargetInventoryTest, LoopbackCountsOnItsOwnMachineOnly) {
  const auto inventory = Open();
  EXPECT_EQ(inventory->Report(node_, At("127.0.0.1:9106")), absl::OkStatus());
  const auto elsewhere = auth::SpiffeId::Node("d", "east", "h2");
  const absl::Status refused = inventory->Report(elsewhere, At("127.0.0.1:9106", "there"));
  EXPECT_EQ(status::Reason(refused), "METRICS_UNREACHABLE");
  EXPECT_EQ(inventory->List().targets_size(), 1);
  EXPECT_EQ(status::Reason(inventory->Report(elsewhere, At("[0:0:0:0:0:0:0:1]:9106", "there"))),
            "METRICS_UNREACHABLE");
  EXPECT_EQ(inventory->Report(elsewhere, At("10.0.1.2:9106", "there")), absl::OkStatus());
  EXPECT_EQ(inventory->List().targets_size(), 2);
  // A name that begins like a loopback address is anybody's.
  EXPECT_EQ(inventory->Report(elsewhere, At("127.evil.example:9106", "there")), absl::OkStatus());
}

TEST_F(TargetInventoryTest, TheListIsWholeAfterARestart) {
  ASSERT_EQ(Open()->Report(node_, At("10.0.1.1:9106")), absl::OkStatus());
  EXPECT_EQ(Open()->List().targets_size(), 1);
}

TEST_F(TargetInventoryTest, ADamagedFileIsNamed) {
  ASSERT_EQ(WriteFileAtomically(absl::StrCat(folder_.path(), "/targets"), "\xff\xff", 0600),
            absl::OkStatus());
  TargetInventory::Options options;
  options.path = absl::StrCat(folder_.path(), "/targets");
  const auto opened = TargetInventory::Open(std::move(options), &strand_, &logger_, &registry_);
  EXPECT_EQ(status::Reason(opened.status()), "SCRAPE_TARGETS_CORRUPT");
}

}  // namespace
}  // namespace capstan::telemetry
