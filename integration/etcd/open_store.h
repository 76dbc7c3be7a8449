#ifndef CAPSTAN_INTEGRATION_ETCD_OPEN_STORE_H_
#define CAPSTAN_INTEGRATION_ETCD_OPEN_STORE_H_

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "libs/store/etcd_options.h"
#include "libs/store/etcd_store.h"
#include "libs/store/store.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/system_clock.h"

namespace capstan::store {

// A store on a strand of its own, in real time, for tests that block. Its going is like that of its
// process: nothing is answered or given back.
class OpenStore {
 public:
  explicit OpenStore(EtcdOptions options) : strand_("store", &clock_) {
    absl::Notification done;
    EtcdStore::Open(std::move(options), &strand_,
                    [&](absl::StatusOr<std::unique_ptr<EtcdStore>> opened) {
                      EXPECT_TRUE(opened.ok()) << opened.status();
                      if (opened.ok()) store_ = *std::move(opened);
                      done.Notify();
                    });
    done.WaitForNotification();
  }
  ~OpenStore() { strand_.Stop(); }

  Store* get() { return store_.get(); }
  ThreadStrand* strand() { return &strand_; }

  absl::StatusOr<TxnResult> Txn(TxnRequest request) {
    return Await<TxnResult>([&](auto done) { store_->Txn(std::move(request), std::move(done)); });
  }
  absl::StatusOr<RangeResult> Range(RangeRequest request) {
    return Await<RangeResult>(
        [&](auto done) { store_->Range(std::move(request), std::move(done)); });
  }

  template <typename T, typename F>
  absl::StatusOr<T> Await(F call) {
    absl::StatusOr<T> result = absl::UnknownError("not answered");
    absl::Notification done;
    call([&](absl::StatusOr<T> got) {
      result = std::move(got);
      done.Notify();
    });
    done.WaitForNotification();
    return result;
  }

 private:
  SystemClock clock_;
  ThreadStrand strand_;
  std::unique_ptr<EtcdStore> store_;
};

}  // namespace capstan::store

#endif  // CAPSTAN_INTEGRATION_ETCD_OPEN_STORE_H_
