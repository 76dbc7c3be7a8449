#include "services/telemetry/ports/fake_subscription_store.h"

#include <memory>

#include "gtest/gtest.h"
#include "services/telemetry/ports/subscription_store_conformance.h"

namespace capstan::telemetry {
namespace {

class FakePlace final : public SubscriptionStorePlace {
 public:
  std::unique_ptr<SubscriptionStore> Open() override {
    return std::make_unique<FakeSubscriptionStore>(&disk_);
  }

 private:
  FakeSubscriptionDisk disk_;
};

INSTANTIATE_TEST_SUITE_P(Fake, SubscriptionStoreConformanceTest,
                         testing::Values([] { return std::make_unique<FakePlace>(); }));

}  // namespace
}  // namespace capstan::telemetry
