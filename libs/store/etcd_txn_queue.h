#ifndef CAPSTAN_LIBS_STORE_ETCD_TXN_QUEUE_H_
#define CAPSTAN_LIBS_STORE_ETCD_TXN_QUEUE_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "libs/rpc/backoff.h"
#include "libs/store/etcd_client.h"
#include "libs/store/etcd_messages.h"
#include "libs/store/store.h"
#include "libs/strand/strand.h"

namespace capstan::store {

// The transactions of an EtcdStore, one after the other: etcd promises no order among those that
// are under way together. On the strand only.
//
// When it cannot be known whether a transaction was carried out (the member died, or did not answer
// in time), it may still be on its way through the cluster. Each is therefore fenced: it compares
// that a key, named by the store's session, is absent. Before the error is told and the next
// transaction is sent, that key is put, after which the late one has no effect, and a new session
// begins. So an error leaves open whether a transaction took effect, but never makes it take effect
// after a later one.
class EtcdTxnQueue : public std::enable_shared_from_this<EtcdTxnQueue> {
 public:
  // `session` is the id of a lease of this store's own, which no other store ever had.
  // `guard` names the store that was opened: once a restore has replaced it, every transaction that
  // would change something gets STORE_REPLACED and has no effect; EtcdOptions::on_replaced is told
  // once.
  EtcdTxnQueue(std::shared_ptr<EtcdClient> client, LeaseId session, StoreGuard guard);

  // Requests have passed CheckTxn.
  void Submit(TxnRequest request, Callback<TxnResult> done);
  // What waits gets STORE_CLOSED, what is under way its answer when it comes.
  void Close();
  size_t waiting() const { return queue_.size() + (busy_ ? 1 : 0); }

 private:
  struct Waiting {
    TxnRequest request;
    BootTime until;
    Callback<TxnResult> done;
    // What was found of KeysToLookUp.
    std::map<std::string, bool> present{};
  };

  std::string FenceKey() const;
  void Next();
  void LookUp();
  void Send();
  void Answer(absl::StatusOr<TxnResult> result);
  void Replaced();
  // Puts the fence, however long that takes.
  void Fence();
  void PutFence(LeaseId next_session);
  void FenceAgain(const absl::Status& why);
  void TellUnknown(bool settled);

  const std::shared_ptr<EtcdClient> client_;
  LeaseId session_;
  const StoreGuard guard_;
  bool replaced_ = false;
  std::deque<Waiting> queue_;
  // The one under way, while busy_; without a `done` once it was told.
  absl::optional<Waiting> current_;
  bool busy_ = false;
  // Why the outcome of `current_` is not known.
  absl::Status unknown_;
  rpc::Backoff fence_backoff_;
  Strand::TimerId tell_timer_ = 0;
};

}  // namespace capstan::store

#endif  // CAPSTAN_LIBS_STORE_ETCD_TXN_QUEUE_H_
