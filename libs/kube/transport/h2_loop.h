// The thread that carries out the calls of one transport over HTTP/2.
#ifndef CAPSTAN_LIBS_KUBE_TRANSPORT_H2_LOOP_H_
#define CAPSTAN_LIBS_KUBE_TRANSPORT_H2_LOOP_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/optional.h"
#include "libs/kube/transport/call_loop.h"
#include "libs/kube/transport/delivery.h"
#include "libs/kube/transport/exchange_table.h"
#include "libs/kube/transport/h2_connection.h"
#include "libs/kube/transport/h2_exchange.h"
#include "libs/kube/transport/h2_pool.h"
#include "libs/kube/transport/tls_channel.h"
#include "libs/time/clock.h"

namespace capstan::kube {

// Shared by the transport, its calls, the credentials' answers and the resolver's, which may
// outlive the thread.
class H2Loop final : public CallLoop,
                     private H2ConnectionOwner,
                     private H2Dialer,
                     public std::enable_shared_from_this<H2Loop> {
 public:
  // Makes what takes over once a server turns out to have no HTTP/2. Called on the thread, at most
  // once.
  using MakeFallback = std::function<absl::StatusOr<std::shared_ptr<CallLoop>>()>;

  H2Loop(H2Setup setup, std::unique_ptr<TlsContext> tls, MakeFallback make_fallback,
         const Clock* clock);
  ~H2Loop() override;
  H2Loop(const H2Loop&) = delete;
  H2Loop& operator=(const H2Loop&) = delete;

  // Starts the thread. UNAVAILABLE if the process may have no more descriptors.
  absl::Status Run();

  void Start(uint64_t id, HttpRequest request, std::shared_ptr<Delivery> delivery,
             absl::Status refusal) override;
  void Resume(uint64_t id) override;
  void Forget(uint64_t id) override;
  void Stop() override;

 private:
  // One of the three.
  struct Task {
    std::unique_ptr<H2Exchange> started;
    absl::Status refusal;
    uint64_t forgotten = 0;
    std::function<void()> other;
  };

  void Post(Task task);
  void Loop();
  void RunTasks();
  void ServeConnections();
  void Wait();
  void FireTimers();
  void EndAll();

  void Begin(std::unique_ptr<H2Exchange> started);
  void Send(uint64_t id, absl::StatusOr<Credential> credential);
  void HandOver(H2Exchange& exchange);
  // The exchange has ended; it goes once its handler knows.
  void Finish(H2Exchange& exchange, absl::Status status);
  void Abort(H2Exchange& exchange, absl::Status status);
  void Erase(H2Exchange& exchange);
  void LetGoOn(H2Exchange& exchange);

  // A connection has closed: its exchanges go on elsewhere, or end. So do those that had no other
  // to wait for.
  void Bury(const H2Connection& connection, const std::vector<uint64_t>& forsaken);

  void OnEnded(H2Exchange& exchange, absl::Status status) override;
  void OnUntouched(H2Exchange& exchange) override;
  std::unique_ptr<H2Connection> Dial(const Credential& credential) override;
  H2Exchange* Waiting(uint64_t id) override;

  H2Setup setup_;
  const std::unique_ptr<TlsContext> tls_;
  const MakeFallback make_fallback_;
  const Clock* const clock_;
  std::thread thread_;
  std::atomic<std::thread::id> thread_id_{};
  // Calls that have been started and not erased.
  std::atomic<int> calls_{0};
  int epoll_ = -1;
  int wake_ = -1;

  absl::Mutex mutex_;
  std::vector<Task> tasks_ ABSL_GUARDED_BY(mutex_);
  // The thread waits, or is about to, and has not been woken.
  bool waiting_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // No thread.
  bool stopped_ ABSL_GUARDED_BY(mutex_) = true;

  // Of the thread.
  std::vector<Task> running_;
  ExchangeTable<H2Exchange> exchanges_;
  H2Pools pools_;
  uint64_t next_connection_ = 1;
  // The call whose credential is being asked for, and the answer if it comes inline.
  uint64_t asking_ = 0;
  absl::optional<absl::StatusOr<Credential>> answer_;
  // Takes all calls, once it is there.
  std::shared_ptr<CallLoop> fallback_;
  bool no_http2_ = false;
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_TRANSPORT_H2_LOOP_H_
