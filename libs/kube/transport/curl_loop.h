// The thread that drives libcurl for one transport.
#ifndef CAPSTAN_LIBS_KUBE_TRANSPORT_CURL_LOOP_H_
#define CAPSTAN_LIBS_KUBE_TRANSPORT_CURL_LOOP_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "curl/curl.h"
#include "libs/kube/transport/call_loop.h"
#include "libs/kube/transport/curl_exchange.h"
#include "libs/kube/transport/delivery.h"
#include "libs/kube/transport/exchange_table.h"
#include "libs/time/clock.h"

namespace capstan::kube {

// Shared by the transport, its calls and the credentials' answers, which may outlive the thread.
class CurlLoop final : public CallLoop, public std::enable_shared_from_this<CurlLoop> {
 public:
  CurlLoop(CurlSetup setup, const Clock* clock);
  ~CurlLoop() override;
  CurlLoop(const CurlLoop&) = delete;
  CurlLoop& operator=(const CurlLoop&) = delete;

  // Starts the thread. INTERNAL if libcurl does not.
  absl::Status Run();

  void Start(uint64_t id, HttpRequest request, std::shared_ptr<Delivery> delivery,
             absl::Status refusal) override;
  void Resume(uint64_t id) override;
  void Forget(uint64_t id) override;
  void Stop() override;

 private:
  using Task = std::function<void()>;

  void Post(Task task);
  void Loop();
  void RunTasks();
  // Waits for a socket, a task or a timer.
  void Wait();
  void ReadEnds();
  void FireTimers();
  void RelieveStalls();
  void EndAll();

  void Begin(CurlExchange& exchange);
  void Send(uint64_t id, absl::StatusOr<Credential> credential);
  // The exchange's transfer has ended; it goes once its handler knows.
  void Finish(CurlExchange& exchange, absl::Status status);
  void Abort(CurlExchange& exchange, absl::Status status);
  void Detach(CurlExchange& exchange);
  void Erase(CurlExchange& exchange);
  void LetGoOn(CurlExchange& exchange);
  void CountCertificate(const std::string& certificate, int change);

  CurlSetup setup_;
  const Clock* const clock_;
  const Libcurl& libcurl_;
  std::thread thread_;
  std::atomic<std::thread::id> thread_id_{};
  // Calls that have been started and not erased.
  std::atomic<int> calls_{0};

  absl::Mutex mutex_;
  std::vector<Task> tasks_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // No thread; null the handle with it.
  bool stopped_ ABSL_GUARDED_BY(mutex_) = true;

  // Of the thread.
  CURLM* multi_ = nullptr;
  ExchangeTable<CurlExchange> exchanges_;
  std::set<uint64_t> stalled_;
  // Transfers under way by client certificate.
  std::map<std::string, int> certificates_;
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_TRANSPORT_CURL_LOOP_H_
