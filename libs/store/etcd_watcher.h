#ifndef CAPSTAN_LIBS_STORE_ETCD_WATCHER_H_
#define CAPSTAN_LIBS_STORE_ETCD_WATCHER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "libs/rpc/backoff.h"
#include "libs/rpc/session.h"
#include "libs/store/etcd_client.h"
#include "libs/store/store.h"
#include "libs/strand/strand.h"

namespace capstan::store {

// One watch of an EtcdStore: a stream of its own, opened again with another member from the first
// revision not yet told when it breaks, when its member fails others, or has lost its leader. The
// next message is read only when the batch before was taken, so a slow strand holds etcd back and
// nothing piles up here. On the strand, but for Cancel.
class EtcdWatcher : public std::enable_shared_from_this<EtcdWatcher> {
 public:
  using OnBatch = absl::AnyInvocable<void(absl::StatusOr<WatchBatch>)>;

  // The request has passed CheckWatch.
  EtcdWatcher(std::shared_ptr<EtcdClient> client, WatchRequest request, OnBatch on_batch);

  void Start();
  // Tells `why` as the last call.
  void End(const absl::Status& why);
  // Opens the stream again if it is with this member.
  void LeaveMember(size_t endpoint);
  // No callback runs afterwards, if called on the strand. From any thread.
  void Cancel() { cancelled_ = true; }
  bool cancelled() const { return cancelled_; }
  // Ends the stream of a watch that was cancelled. On the strand.
  void CloseStream();

 private:
  using Response = etcdserverpb::WatchResponse;
  using Stream = rpc::Session<Response, etcdserverpb::WatchRequest>;

  // Finds out where the store stands.
  void Look();
  void Found(int64_t revision);
  void Open();
  void OnMessage(const Response& response);
  void OnCancelled(const Response& response);
  // The stream is gone: a new one, after a while.
  void Lost(const absl::Status& why);
  void TakeEvents(const Response& response);
  // Tells the events before `end` of those collected, which are of whole revisions, or that there
  // are none up to `revision`.
  void Tell(size_t end, int64_t revision);
  void AskProgress(absl::Duration next);

  const std::shared_ptr<EtcdClient> client_;
  const WatchRequest request_;
  OnBatch on_batch_;
  std::atomic<bool> cancelled_{false};
  // First revision not yet told.
  int64_t next_ = 0;
  // Whether the first batch was told.
  bool greeted_ = false;
  // Of the newest revision, whose other events may come yet.
  std::vector<WatchEvent> events_;
  std::shared_ptr<Stream> stream_;
  // Counts streams; what an older one still says is not listened to.
  int64_t stream_number_ = 0;
  size_t endpoint_ = 0;
  rpc::Backoff backoff_;
  Strand::TimerId retry_timer_ = 0;
  Strand::TimerId progress_timer_ = 0;
};

}  // namespace capstan::store

#endif  // CAPSTAN_LIBS_STORE_ETCD_WATCHER_H_
