// Backup and restore on a real etcd.
#include "libs/store/backup.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "integration/etcd/test_store.h"
#include "libs/store/backup_conformance.h"
#include "libs/store/etcd_store.h"
#include "libs/store/store_backup.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/system_clock.h"
#include "tools/testenv/etcd_server.h"

namespace capstan::store {
namespace {

class EtcdBench final : public BackupBench {
 public:
  EtcdBench() {
    auto etcd = testenv::EtcdServer::Start({.fsync = false});
    EXPECT_TRUE(etcd.ok()) << etcd.status();
    if (etcd.ok()) etcd_ = *std::move(etcd);
  }
  ~EtcdBench() override { Close(); }

  absl::Status Open() override { return Connect(/*restoring=*/false); }
  void Close() override {
    if (strand_ == nullptr) return;
    absl::Notification closed;
    strand_->Post([&] {
      store_.reset();
      closed.Notify();
    });
    closed.WaitForNotification();
    strand_->Stop();
    strand_.reset();
  }
  Store* store() override { return store_.get(); }
  int64_t incarnation() override { return store_->incarnation(); }
  std::unique_ptr<BackupSource> Source() override {
    return std::make_unique<StoreBackupSource>(store_.get());
  }
  std::unique_ptr<RestoreTarget> Target() override {
    EXPECT_TRUE(Connect(/*restoring=*/true).ok());
    return std::make_unique<StoreRestoreTarget>(store_.get(), "thing");
  }

 private:
  absl::Status Connect(bool restoring) {
    Close();
    strand_ = std::make_unique<ThreadStrand>("bench", &clock_);
    EtcdOptions options = OptionsFor(*etcd_);
    options.prefix = "/capstan/thing/";
    options.restoring = restoring;
    absl::Status result;
    absl::Notification done;
    EtcdStore::Open(std::move(options), strand_.get(),
                    [&](absl::StatusOr<std::unique_ptr<EtcdStore>> opened) {
                      result = opened.status();
                      if (opened.ok()) store_ = *std::move(opened);
                      done.Notify();
                    });
    done.WaitForNotification();
    return result;
  }

  SystemClock clock_;
  std::unique_ptr<testenv::EtcdServer> etcd_;
  std::unique_ptr<ThreadStrand> strand_;
  std::unique_ptr<EtcdStore> store_;
};

INSTANTIATE_TEST_SUITE_P(Etcd, BackupConformanceTest,
                         testing::Values([] { return std::make_unique<EtcdBench>(); }));

}  // namespace
}  // namespace capstan::store
