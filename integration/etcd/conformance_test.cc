// The store's conformance suite on a real etcd.
#include "libs/store/conformance.h"

#include <memory>

#include "integration/etcd/test_store.h"
#include "libs/store/conformance_concurrency.h"
#include "libs/store/conformance_watch.h"
#include "tools/testenv/etcd_server.h"

namespace capstan::store {
namespace {

// Reopenings that also kill the server; later ones would only take time.
constexpr int kKills = 2;

class EtcdDisk final : public StoreDisk {
 public:
  EtcdDisk() {
    // A killed process leaves what it wrote to the kernel; nothing here cuts the power.
    auto etcd = testenv::EtcdServer::Start({.fsync = false});
    EXPECT_TRUE(etcd.ok()) << etcd.status();
    if (etcd.ok()) etcd_ = *std::move(etcd);
  }

  std::unique_ptr<Store> Open(PumpedStrand* strand) override {
    if (etcd_ == nullptr) return nullptr;
    if (opened_ > 0 && opened_ <= kKills) {
      etcd_->Kill(0);
      const absl::Status restarted = etcd_->Restart(0);
      EXPECT_TRUE(restarted.ok()) << restarted;
    }
    ++opened_;
    EtcdOptions options = OptionsFor(*etcd_);
    // The suite counts revisions from 1.
    options.incarnation = 7;
    auto store = OpenEtcd(std::move(options), strand);
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }

  LeaseTiming lease_timing() const override {
    return {absl::Seconds(2), absl::Seconds(1), absl::Milliseconds(1500)};
  }
  void Elapse(PumpedStrand* strand, absl::Duration d) override { strand->RunFor(d); }

 private:
  std::unique_ptr<testenv::EtcdServer> etcd_;
  int opened_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Etcd, StoreConformanceTest,
                         testing::Values([] { return std::make_unique<EtcdDisk>(); }));

}  // namespace
}  // namespace capstan::store
