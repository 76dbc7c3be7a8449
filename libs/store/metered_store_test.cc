#include "libs/store/metered_store.h"

#include <memory>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/metrics/registry.h"
#include "libs/store/conformance.h"
#include "libs/store/conformance_concurrency.h"
#include "libs/store/conformance_watch.h"
#include "libs/store/memory_store.h"
#include "libs/strand/simulated_strand.h"
#include "libs/time/simulated_clock.h"
#include "libs/time/system_clock.h"

namespace capstan::store {
namespace {

using ::testing::HasSubstr;

class MeteredDisk final : public StoreDisk {
 public:
  std::unique_ptr<Store> Open(PumpedStrand* strand) override {
    return std::make_unique<MeteredStore>(std::make_unique<MemoryStore>(strand, image_), &clock_,
                                          &registry_);
  }

 private:
  const SystemClock clock_;
  metrics::Registry registry_{"process"};
  const std::shared_ptr<MemoryImage> image_ = std::make_shared<MemoryImage>();
};

INSTANTIATE_TEST_SUITE_P(Metered, StoreConformanceTest,
                         testing::Values([] { return std::make_unique<MeteredDisk>(); }));

TEST(MeteredStoreTest, CountsTimeAndTheStoresOwnFaults) {
  SimulatedClock clock;
  SimulatedStrand strand(&clock);
  metrics::Registry registry("process");
  auto memory = std::make_unique<MemoryStore>(&strand);
  MemoryStore* const faulty = memory.get();
  MeteredStore store(std::move(memory), &clock, &registry);
  const auto put = [&](const std::string& key) {
    absl::Status answer = absl::UnknownError("none");
    store.Txn({.then = {Put{key, "v"}}},
              [&](absl::StatusOr<TxnResult> result) { answer = result.status(); });
    strand.Advance(absl::Seconds(1));
    return answer;
  };
  faulty->SetCommitDelay(absl::Milliseconds(30));
  EXPECT_EQ(put("a"), absl::OkStatus());
  EXPECT_TRUE(absl::IsInvalidArgument(put("")));
  faulty->FailNextTxn(absl::UnavailableError("disk"));
  EXPECT_TRUE(absl::IsUnavailable(put("b")));
  const std::string text = registry.RenderText();
  EXPECT_THAT(text, HasSubstr("capstan_process_store_errors_total{operation=\"txn\"} 1"));
  EXPECT_THAT(text, HasSubstr("capstan_process_store_errors_total{operation=\"range\"} 0"));
  EXPECT_THAT(text, HasSubstr("capstan_process_store_operation_duration_seconds_bucket{operation="
                              "\"txn\",le=\"0.05\"} 3"));
  EXPECT_THAT(text, HasSubstr("capstan_process_store_operation_duration_seconds_count{operation="
                              "\"txn\"} 3"));
}

}  // namespace
}  // namespace capstan::store
