#ifndef CAPSTAN_LIBS_STORE_BLOCKING_STORE_H_
#define CAPSTAN_LIBS_STORE_BLOCKING_STORE_H_

#include <utility>

#include "absl/status/statusor.h"
#include "absl/synchronization/notification.h"
#include "libs/store/store.h"

namespace capstan::store {

// A Store for commands, whose calls wait for their answers. From any thread but that of the store's
// strand, which must run.
class BlockingStore {
 public:
  // `store` must outlive it.
  explicit BlockingStore(Store* store) : store_(store) {}

  absl::StatusOr<RangeResult> Range(RangeRequest request) {
    return Await<RangeResult>(
        [&](auto done) { store_->Range(std::move(request), std::move(done)); });
  }
  absl::StatusOr<TxnResult> Txn(TxnRequest request) {
    return Await<TxnResult>([&](auto done) { store_->Txn(std::move(request), std::move(done)); });
  }
  int64_t incarnation() const { return store_->incarnation(); }

 private:
  template <typename T, typename F>
  static absl::StatusOr<T> Await(F call) {
    absl::StatusOr<T> result = absl::UnknownError("not answered");
    absl::Notification done;
    call([&](absl::StatusOr<T> got) {
      result = std::move(got);
      done.Notify();
    });
    done.WaitForNotification();
    return result;
  }

  Store* const store_;
};

}  // namespace capstan::store

#endif  // CAPSTAN_LIBS_STORE_BLOCKING_STORE_H_
