// Backup and restore on a real etcd.
#include "libs/store/backup.h"

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "integration/etcd/test_store.h"
#include "libs/status/error.h"
#include "libs/store/backup_conformance.h"
#include "libs/store/blocking_store.h"
#include "libs/store/etcd_errors.h"
#include "libs/store/etcd_store.h"
#include "libs/store/leadership.h"
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
  const testenv::EtcdServer& etcd() const { return *etcd_; }
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

// A process that opened the store before a restore: a follower that was cut off, say.
class Bystander {
 public:
  explicit Bystander(const testenv::EtcdServer& etcd) {
    EtcdOptions options = OptionsFor(etcd);
    options.prefix = "/capstan/thing/";
    options.on_replaced = [this](const absl::Status& why) {
      EXPECT_EQ(status::Reason(why), kReasonReplaced);
      EXPECT_FALSE(told_.HasBeenNotified()) << "told once";
      told_.Notify();
    };
    absl::Notification done;
    EtcdStore::Open(std::move(options), &strand_,
                    [&](absl::StatusOr<std::unique_ptr<EtcdStore>> opened) {
                      EXPECT_TRUE(opened.ok()) << opened.status();
                      if (opened.ok()) store_ = *std::move(opened);
                      done.Notify();
                    });
    done.WaitForNotification();
  }
  ~Bystander() {
    absl::Notification closed;
    strand_.Post([&] {
      leadership_.reset();
      store_.reset();
      closed.Notify();
    });
    closed.WaitForNotification();
    strand_.Stop();
  }

  Store* store() { return store_.get(); }
  // Tries to lead until it is told that the store is another one.
  void Lead() {
    strand_.Post([this] {
      leadership_ = std::make_unique<Leadership>(
          store_.get(), &strand_,
          Leadership::Options{.key = "/capstan/thing/v1/leader", .value = "bystander"});
      leadership_->Start({.on_gained = [this] { gained_ = true; }, .on_lost = [](absl::Status) {}});
    });
  }
  void AwaitTold() { told_.WaitForNotification(); }
  bool gained() const { return gained_; }

 private:
  SystemClock clock_;
  ThreadStrand strand_{"bystander", &clock_};
  std::unique_ptr<EtcdStore> store_;
  std::unique_ptr<Leadership> leadership_;
  std::atomic<bool> gained_ = false;
  absl::Notification told_;
};

std::string ReasonOfPut(Store* store, const std::string& key) {
  return status::Reason(BlockingStore(store).Txn({.then = {Put{key, "x"}}}).status());
}

TEST(EtcdRestoreTest, WhoOpenedTheStoreBeforeARestoreChangesNothingInItAndCannotLead) {
  EtcdBench bench;
  ASSERT_TRUE(bench.Open().ok());
  const std::string key = "/capstan/thing/v1/a";
  EXPECT_EQ(ReasonOfPut(bench.store(), key), "");
  const int64_t before = bench.incarnation();
  Bystander writer(bench.etcd());
  Bystander follower(bench.etcd());
  EXPECT_EQ(ReasonOfPut(writer.store(), key), "");

  const std::unique_ptr<RestoreTarget> target = bench.Target();
  ASSERT_TRUE(target->Begin().ok());
  EXPECT_EQ(ReasonOfPut(writer.store(), key), "STORE_REPLACED") << "while it is filled";
  ASSERT_TRUE(target->Write({Put{key, "restored"}}).ok());
  ASSERT_TRUE(target->Finish(before + 1).ok());

  follower.Lead();
  follower.AwaitTold();
  EXPECT_FALSE(follower.gained());
  EXPECT_EQ(ReasonOfPut(writer.store(), key), "STORE_REPLACED") << "nor afterwards";
  const auto kept = BlockingStore(writer.store()).Range({.key = key});
  ASSERT_TRUE(kept.ok());
  EXPECT_EQ(kept->kvs.at(0).value, "restored");
  ASSERT_TRUE(bench.Open().ok());
  EXPECT_EQ(bench.incarnation(), before + 1);
  EXPECT_EQ(ReasonOfPut(bench.store(), key), "") << "opened anew";
}

TEST(EtcdRestoreTest, WhileAReplicaHoldsALeaseARestoreTouchesNothingAndNamesIt) {
  EtcdBench bench;
  ASSERT_TRUE(bench.Open().ok());
  Bystander member(bench.etcd());
  absl::Notification put;
  member.store()->GrantLease(absl::Minutes(1), [&](absl::StatusOr<LeaseId> lease) {
    ASSERT_TRUE(lease.ok()) << lease.status();
    member.store()->Txn({.then = {Put{"/capstan/thing/v1/shards/member/a", "here", *lease}}},
                        [&](const absl::StatusOr<TxnResult>& result) {
                          EXPECT_TRUE(result.ok()) << result.status();
                          put.Notify();
                        });
  });
  put.WaitForNotification();
  const std::unique_ptr<RestoreTarget> target = bench.Target();
  const absl::Status refused = target->Begin();
  EXPECT_EQ(status::Reason(refused), "STORE_IN_USE");
  EXPECT_THAT(std::string(refused.message()), testing::HasSubstr("shards/member/a"));
  EXPECT_EQ(ReasonOfPut(member.store(), "/capstan/thing/v1/a"), "") << "nothing was touched";
}

TEST(EtcdRestoreTest, OfTwoRestoresAtOnceTheLaterOneWins) {
  EtcdBench bench;
  ASSERT_TRUE(bench.Open().ok());
  const int64_t before = bench.incarnation();
  const std::unique_ptr<RestoreTarget> first = bench.Target();
  StoreRestoreTarget second(bench.store(), "thing");
  ASSERT_TRUE(first->Begin().ok());
  ASSERT_TRUE(second.Begin().ok());
  const absl::Status lost = first->Write({Put{"/capstan/thing/v1/a", "1"}});
  EXPECT_EQ(status::Reason(lost), "STORE_IN_USE") << lost;
  EXPECT_FALSE(first->Finish(before + 1).ok());
  EXPECT_TRUE(second.Finish(before + 2).ok());
}

}  // namespace
}  // namespace capstan::store
