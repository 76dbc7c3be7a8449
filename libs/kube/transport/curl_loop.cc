#include "libs/kube/transport/curl_loop.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/kube/transport/transport_error.h"
#include "libs/status/error.h"

namespace capstan::kube {
namespace {

// CLOCK_BOOTTIME goes on while the machine is suspended and poll's clock does not.
constexpr absl::Duration kLongestWait = absl::Seconds(10);
// While a connection is stopped libcurl finds its socket readable and does not read.
constexpr absl::Duration kStalledWait = absl::Milliseconds(5);

}  // namespace

CurlLoop::CurlLoop(CurlSetup setup, const Clock* clock)
    : setup_(std::move(setup)), clock_(clock), libcurl_(*setup_.libcurl) {}

CurlLoop::~CurlLoop() { Stop(); }

absl::Status CurlLoop::Run() {
  multi_ = libcurl_.multi_init();
  if (multi_ == nullptr) return absl::InternalError("libcurl gives no multi handle");
  libcurl_.multi_setopt(multi_, CURLMOPT_PIPELINING, static_cast<long>(CURLPIPE_MULTIPLEX));
  libcurl_.multi_setopt(multi_, CURLMOPT_MAX_CONCURRENT_STREAMS,
                        static_cast<long>(setup_.options.max_streams));
  CountCertificate("", 0);
  {
    absl::MutexLock lock(&mutex_);
    stopped_ = false;
  }
  thread_ = std::thread([this] { Loop(); });
  ::pthread_setname_np(thread_.native_handle(), "kube-transport");
  return absl::OkStatus();
}

void CurlLoop::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    if (!stopped_) libcurl_.multi_wakeup(multi_);
  }
  if (thread_.joinable()) thread_.join();
}

void CurlLoop::Post(Task task) {
  absl::MutexLock lock(&mutex_);
  if (stopped_) return;
  tasks_.push_back(std::move(task));
  // The thread itself looks again before it waits.
  if (thread_id_.load() != std::this_thread::get_id()) libcurl_.multi_wakeup(multi_);
}

void CurlLoop::Start(uint64_t id, HttpRequest request, std::shared_ptr<Delivery> delivery,
                     absl::Status refusal) {
  const BootTime now = clock_->Read().boot;
  if (++calls_ > setup_.options.max_calls && refusal.ok()) {
    refusal = TooManyCalls(setup_.options.max_calls);
  }
  auto exchange = std::make_shared<std::unique_ptr<CurlExchange>>(
      std::make_unique<CurlExchange>(&setup_, id, std::move(request), std::move(delivery), now));
  Post([this, exchange, refusal = std::move(refusal)] {
    CurlExchange& added = exchanges_.Add(std::move(*exchange));
    if (refusal.ok()) {
      Begin(added);
    } else {
      Abort(added, refusal);
    }
  });
}

void CurlLoop::Resume(uint64_t id) {
  Post([this, id] {
    if (CurlExchange* const exchange = exchanges_.Find(id)) LetGoOn(*exchange);
  });
}

void CurlLoop::Forget(uint64_t id) {
  Post([this, id] {
    CurlExchange* const exchange = exchanges_.Find(id);
    if (exchange != nullptr) Erase(*exchange);
  });
}

void CurlLoop::Begin(CurlExchange& exchange) {
  exchanges_.SetTimer(exchange);
  const uint64_t id = exchange.id();
  if (setup_.credentials == nullptr) {
    Send(id, Credential());
    return;
  }
  setup_.credentials->Get([weak = weak_from_this(), id](absl::StatusOr<Credential> credential) {
    const std::shared_ptr<CurlLoop> loop = weak.lock();
    if (loop == nullptr) return;
    loop->Post([raw = loop.get(), id, credential = std::move(credential)]() mutable {
      raw->Send(id, std::move(credential));
    });
  });
}

void CurlLoop::Send(uint64_t id, absl::StatusOr<Credential> credential) {
  CurlExchange* const exchange = exchanges_.Find(id);
  if (exchange == nullptr) return;
  if (!credential.ok()) {
    Finish(*exchange, NoCredential(credential.status()));
    return;
  }
  absl::Status prepared = exchange->Prepare(*std::move(credential));
  if (!prepared.ok()) {
    exchange->FreeHandle();
    Finish(*exchange, std::move(prepared));
    return;
  }
  CountCertificate(exchange->credential().certificate_chain_pem, 1);
  libcurl_.multi_add_handle(multi_, exchange->easy());
}

void CurlLoop::CountCertificate(const std::string& certificate, int change) {
  if (change != 0) {
    const auto it = certificates_.try_emplace(certificate, 0).first;
    it->second += change;
    if (it->second == 0) certificates_.erase(it);
  }
  // Calls that show a new certificate need not wait for the endless ones that show the old.
  const auto kinds = std::max<size_t>(1, certificates_.size());
  const auto most = static_cast<long>(setup_.options.max_connections * kinds);
  libcurl_.multi_setopt(multi_, CURLMOPT_MAX_HOST_CONNECTIONS, most);
  libcurl_.multi_setopt(multi_, CURLMOPT_MAXCONNECTS, most);
}

void CurlLoop::Detach(CurlExchange& exchange) {
  if (exchange.easy() == nullptr) return;
  if (!exchange.ended()) {
    exchange.CloseIfAlone();
    exchange.DropKept();
  }
  libcurl_.multi_remove_handle(multi_, exchange.easy());
  exchange.FreeHandle();
  stalled_.erase(exchange.id());
  CountCertificate(exchange.credential().certificate_chain_pem, -1);
}

void CurlLoop::Erase(CurlExchange& exchange) {
  Detach(exchange);
  exchanges_.Erase(exchange);
  --calls_;
}

void CurlLoop::Finish(CurlExchange& exchange, absl::Status status) {
  Detach(exchange);
  exchange.delivery().Finish(std::move(status));
  if (exchange.delivery().done()) {
    Erase(exchange);
  } else {
    exchanges_.SetTimer(exchange);
  }
}

void CurlLoop::Abort(CurlExchange& exchange, absl::Status status) {
  Detach(exchange);
  exchange.delivery().Abort(std::move(status));
  Erase(exchange);
}

void CurlLoop::LetGoOn(CurlExchange& exchange) {
  exchange.Resumed();
  exchange.delivery().Drain();
  if (exchange.delivery().done()) {
    Erase(exchange);
    return;
  }
  exchanges_.SetTimer(exchange);
}

void CurlLoop::FireTimers() {
  exchanges_.FireTimers(setup_.now,
                        [this](CurlExchange& exchange) { Abort(exchange, exchange.TimedOut()); });
}

void CurlLoop::ReadEnds() {
  int left = 0;
  while (const CURLMsg* const message = libcurl_.multi_info_read(multi_, &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    const CURLcode code = message->data.result;
    char* user = nullptr;
    libcurl_.easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &user);
    CurlExchange& exchange = *reinterpret_cast<CurlExchange*>(user);
    exchange.set_ended();
    Finish(exchange, exchange.EndOf(code));
  }
}

void CurlLoop::RelieveStalls() {
  const std::vector<uint64_t> ids(stalled_.begin(), stalled_.end());
  for (const uint64_t id : ids) {
    CurlExchange* const exchange = exchanges_.Find(id);
    if (exchange == nullptr) continue;
    // Half, so that it does not stop again at the next byte.
    if (!exchange->delivery().paused() ||
        exchange->delivery().held() <= exchange->HeldBound() / 2) {
      stalled_.erase(id);
      const CURLcode code = exchange->Unstall();
      if (code != CURLE_OK) Finish(*exchange, exchange->EndOf(code));
    } else if (exchange->multiplexed() &&
               setup_.now - exchange->stalled_since() >= setup_.options.longest_stall) {
      Finish(*exchange,
             status::Error(absl::StatusCode::kUnavailable, kBroken,
                           absl::StrCat("the call was ended, since its handler wants no more and ",
                                        exchange->delivery().held(),
                                        " bytes wait for it, with other calls behind them")));
    }
  }
}

void CurlLoop::RunTasks() {
  std::vector<Task> tasks;
  {
    absl::MutexLock lock(&mutex_);
    tasks.swap(tasks_);
  }
  setup_.now = clock_->Read().boot;
  for (Task& task : tasks) task();
}

void CurlLoop::EndAll() {
  for (const uint64_t id : exchanges_.Ids([](const CurlExchange&) { return true; })) {
    if (CurlExchange* const exchange = exchanges_.Find(id)) {
      Abort(*exchange, LoopStopped());
    }
  }
}

void CurlLoop::Wait() {
  absl::Duration wait = kLongestWait;
  wait = std::min(wait, exchanges_.NextTimer() - setup_.now);
  const bool stalled = std::any_of(stalled_.begin(), stalled_.end(), [this](uint64_t id) {
    const CurlExchange* const exchange = exchanges_.Find(id);
    return exchange != nullptr && exchange->multiplexed();
  });
  {
    absl::MutexLock lock(&mutex_);
    if (!tasks_.empty() || stopping_) return;
    if (stalled) {
      const auto posted = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return !tasks_.empty() || stopping_;
      };
      mutex_.AwaitWithTimeout(absl::Condition(&posted), std::min(wait, kStalledWait));
      return;
    }
  }
  wait = std::max(wait, absl::ZeroDuration());
  // Rounded up, or it would turn round until the timer is due.
  const auto whole = absl::ToInt64Milliseconds(absl::Ceil(wait, absl::Milliseconds(1)));
  libcurl_.multi_poll(multi_, nullptr, 0, static_cast<int>(whole), nullptr);
}

void CurlLoop::Loop() {
  thread_id_ = std::this_thread::get_id();
  // Signals are for other threads; one of a broken connection is for none.
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
  while (true) {
    RunTasks();
    int running = 0;
    libcurl_.multi_perform(multi_, &running);
    setup_.now = clock_->Read().boot;
    ReadEnds();
    for (const uint64_t id :
         exchanges_.Ids([](const CurlExchange& exchange) { return exchange.stalled(); })) {
      stalled_.insert(id);
    }
    RelieveStalls();
    FireTimers();
    bool stopping = false;
    {
      absl::MutexLock lock(&mutex_);
      stopping = stopping_;
    }
    if (stopping) {
      EndAll();
      absl::MutexLock lock(&mutex_);
      if (!tasks_.empty()) continue;
      stopped_ = true;
      break;
    }
    Wait();
  }
  libcurl_.multi_cleanup(multi_);
}

}  // namespace capstan::kube
