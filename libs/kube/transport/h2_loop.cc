#include "libs/kube/transport/h2_loop.h"

#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/kube/transport/resolver.h"
#include "libs/kube/transport/transport_error.h"
#include "libs/status/error.h"

namespace capstan::kube {
namespace {

// CLOCK_BOOTTIME goes on while the machine is suspended and epoll's clock does not.
constexpr absl::Duration kLongestWait = absl::Seconds(10);
// Of epoll; connections count from 1.
constexpr uint64_t kWake = 0;

absl::Status NotSent(absl::string_view why) {
  return status::Error(absl::StatusCode::kUnavailable, kNotSent, why);
}

}  // namespace

H2Loop::H2Loop(H2Setup setup, std::unique_ptr<TlsContext> tls, MakeFallback make_fallback,
               const Clock* clock)
    : setup_(std::move(setup)),
      tls_(std::move(tls)),
      make_fallback_(std::move(make_fallback)),
      clock_(clock),
      pools_(&setup_, this) {}

H2Loop::~H2Loop() {
  H2Loop::Stop();
  if (epoll_ >= 0) ::close(epoll_);
  if (wake_ >= 0) ::close(wake_);
}

absl::Status H2Loop::Run() {
  epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
  wake_ = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  epoll_event event = {};
  // Each write is an edge, so that none has to be read.
  event.events = EPOLLIN | EPOLLET;
  event.data.u64 = kWake;
  if (epoll_ < 0 || wake_ < 0 || ::epoll_ctl(epoll_, EPOLL_CTL_ADD, wake_, &event) != 0) {
    return absl::ErrnoToStatus(errno, "no descriptors for the transport to the API server");
  }
  {
    absl::MutexLock lock(&mutex_);
    stopped_ = false;
  }
  thread_ = std::thread([this] { Loop(); });
  ::pthread_setname_np(thread_.native_handle(), "kube-transport");
  return absl::OkStatus();
}

void H2Loop::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  Task none;
  none.other = [] {};
  Post(std::move(none));
  if (thread_.joinable()) thread_.join();
  if (fallback_ != nullptr) fallback_->Stop();
}

void H2Loop::Post(Task task) {
  {
    absl::MutexLock lock(&mutex_);
    if (stopped_) return;
    tasks_.push_back(std::move(task));
    if (!waiting_) return;
    waiting_ = false;
  }
  const uint64_t one = 1;
  // The count would be full after 2^64 wakes.
  (void)!::write(wake_, &one, sizeof(one));
}

void H2Loop::Start(uint64_t id, HttpRequest request, std::shared_ptr<Delivery> delivery,
                   absl::Status refusal) {
  const BootTime now = clock_->Read().boot;
  if (++calls_ > setup_.options.max_calls && refusal.ok()) {
    refusal = TooManyCalls(setup_.options.max_calls);
  }
  Task task;
  task.started =
      std::make_unique<H2Exchange>(&setup_, id, std::move(request), std::move(delivery), now);
  task.refusal = std::move(refusal);
  Post(std::move(task));
}

void H2Loop::Resume(uint64_t id) {
  Task task;
  task.other = [this, id] {
    if (H2Exchange* const exchange = exchanges_.Find(id)) {
      LetGoOn(*exchange);
    } else if (fallback_ != nullptr) {
      fallback_->Resume(id);
    }
  };
  Post(std::move(task));
}

void H2Loop::Forget(uint64_t id) {
  Task task;
  task.forgotten = id;
  Post(std::move(task));
}

H2Exchange* H2Loop::Waiting(uint64_t id) {
  H2Exchange* const exchange = exchanges_.Find(id);
  return exchange == nullptr || exchange->delivery().finished() ? nullptr : exchange;
}

void H2Loop::Begin(std::unique_ptr<H2Exchange> started) {
  H2Exchange& exchange = exchanges_.Add(std::move(started));
  const uint64_t id = exchange.id();
  if (no_http2_) {
    HandOver(exchange);
    return;
  }
  exchanges_.SetTimer(exchange);
  if (setup_.credentials == nullptr) {
    Send(id, Credential());
    return;
  }
  asking_ = id;
  setup_.credentials->Get([weak = weak_from_this(), id](absl::StatusOr<Credential> credential) {
    const std::shared_ptr<H2Loop> loop = weak.lock();
    if (loop == nullptr) return;
    if (loop->thread_id_.load() == std::this_thread::get_id() && loop->asking_ == id) {
      loop->answer_ = std::move(credential);
      return;
    }
    Task task;
    task.other = [raw = loop.get(), id, credential = std::move(credential)]() mutable {
      raw->Send(id, std::move(credential));
    };
    loop->Post(std::move(task));
  });
  asking_ = 0;
  if (!answer_.has_value()) return;
  absl::StatusOr<Credential> credential = *std::move(answer_);
  answer_.reset();
  Send(id, std::move(credential));
}

void H2Loop::Send(uint64_t id, absl::StatusOr<Credential> credential) {
  H2Exchange* const exchange = exchanges_.Find(id);
  if (exchange == nullptr) return;
  if (no_http2_) {
    HandOver(*exchange);
    return;
  }
  if (!credential.ok()) {
    Finish(*exchange, NoCredential(credential.status()));
    return;
  }
  absl::Status good = exchange->SetCredential(*std::move(credential));
  if (good.ok()) {
    pools_.Enqueue(*exchange);
  } else {
    Finish(*exchange, std::move(good));
  }
}

void H2Loop::HandOver(H2Exchange& exchange) {
  if (fallback_ == nullptr) {
    absl::StatusOr<std::shared_ptr<CallLoop>> made = make_fallback_();
    if (!made.ok()) {
      Finish(exchange, NotSent(absl::StrCat("the API server has no HTTP/2, and for 1.1: ",
                                            made.status().message())));
      return;
    }
    fallback_ = *std::move(made);
  }
  HttpRequest request = exchange.HandOver();
  if (request.timeout <= absl::ZeroDuration()) {
    Abort(exchange, exchange.TimedOut());
    return;
  }
  fallback_->Start(exchange.id(), std::move(request), exchange.shared_delivery(), absl::OkStatus());
  Erase(exchange);
}

void H2Loop::Erase(H2Exchange& exchange) {
  if (exchange.connection != nullptr) exchange.connection->Cancel(exchange);
  exchanges_.Erase(exchange);
  --calls_;
}

void H2Loop::Finish(H2Exchange& exchange, absl::Status status) {
  exchange.delivery().Finish(std::move(status));
  if (exchange.delivery().done()) {
    Erase(exchange);
  } else {
    exchanges_.SetTimer(exchange);
  }
}

void H2Loop::Abort(H2Exchange& exchange, absl::Status status) {
  exchange.delivery().Abort(std::move(status));
  Erase(exchange);
}

void H2Loop::LetGoOn(H2Exchange& exchange) {
  exchange.Resumed();
  exchange.delivery().Drain();
  if (exchange.delivery().done()) {
    Erase(exchange);
    return;
  }
  if (exchange.connection != nullptr) exchange.connection->OnConsumed(exchange);
  exchanges_.SetTimer(exchange);
}

void H2Loop::FireTimers() {
  exchanges_.FireTimers(setup_.now,
                        [this](H2Exchange& exchange) { Abort(exchange, exchange.TimedOut()); });
  pools_.ForEach([](H2Connection& connection) { connection.OnTime(); });
}

void H2Loop::OnEnded(H2Exchange& exchange, absl::Status status) {
  Finish(exchange, std::move(status));
}

void H2Loop::OnUntouched(H2Exchange& exchange) {
  if (exchange.StartOver()) {
    pools_.Enqueue(exchange);
  } else {
    Finish(exchange, NotSent("the API server has refused the call several times, unread"));
  }
}

std::unique_ptr<H2Connection> H2Loop::Dial(const Credential& credential) {
  const uint64_t id = next_connection_++;
  H2ConnectionOwner* const owner = this;
  auto connection = std::make_unique<H2Connection>(&setup_, owner, id, epoll_);
  absl::StatusOr<std::unique_ptr<SSL, SslDelete>> ssl =
      tls_->MakeSsl(credential.certificate_chain_pem, credential.private_key_pem);
  if (!ssl.ok()) {
    connection->Lose(ssl.status());
    return connection;
  }
  auto shared = std::make_shared<std::unique_ptr<SSL, SslDelete>>(*std::move(ssl));
  Resolve(
      setup_.endpoint.host, setup_.endpoint.port,
      [weak = weak_from_this(), id, shared](absl::StatusOr<std::vector<SocketAddress>> addresses) {
        const std::shared_ptr<H2Loop> loop = weak.lock();
        if (loop == nullptr) return;
        Task task;
        task.other = [raw = loop.get(), id, shared, addresses = std::move(addresses)]() mutable {
          H2Connection* const found = raw->pools_.Find(id);
          if (found == nullptr) return;
          if (addresses.ok()) {
            found->Connect(std::move(*shared), *std::move(addresses));
          } else {
            found->Lose(NotSent(addresses.status().message()));
          }
        };
        loop->Post(std::move(task));
      });
  return connection;
}

void H2Loop::Bury(const H2Connection& connection, const std::vector<uint64_t>& forsaken) {
  const std::vector<uint64_t> had = exchanges_.Ids(
      [&connection](const H2Exchange& exchange) { return exchange.connection == &connection; });
  for (const uint64_t id : had) {
    H2Exchange& exchange = *exchanges_.Find(id);
    exchange.connection = nullptr;
    if (exchange.sent) {
      Finish(exchange, status::Error(absl::StatusCode::kUnavailable, kBroken,
                                     absl::StrCat("the call to the API server broke: ",
                                                  connection.failure().message())));
    } else {
      OnUntouched(exchange);
    }
  }
  if (connection.no_http2()) no_http2_ = true;
  for (const uint64_t id : forsaken) {
    H2Exchange* const exchange = Waiting(id);
    if (exchange == nullptr) continue;
    if (no_http2_) {
      HandOver(*exchange);
    } else {
      Finish(*exchange, connection.failure());
    }
  }
  if (!no_http2_) return;
  for (const uint64_t id : pools_.TakeWaiting()) {
    if (H2Exchange* const exchange = Waiting(id)) HandOver(*exchange);
  }
}

void H2Loop::RunTasks() {
  {
    absl::MutexLock lock(&mutex_);
    running_.swap(tasks_);
  }
  setup_.now = clock_->Read().boot;
  for (Task& task : running_) {
    if (task.started != nullptr) {
      if (task.refusal.ok()) {
        Begin(std::move(task.started));
      } else {
        Abort(exchanges_.Add(std::move(task.started)), std::move(task.refusal));
      }
    } else if (task.forgotten != 0) {
      if (H2Exchange* const exchange = exchanges_.Find(task.forgotten)) {
        Erase(*exchange);
      } else if (fallback_ != nullptr) {
        fallback_->Forget(task.forgotten);
      }
    } else {
      task.other();
    }
  }
  running_.clear();
}

void H2Loop::ServeConnections() {
  const auto bury = [this](const H2Connection& connection, const std::vector<uint64_t>& forsaken) {
    Bury(connection, forsaken);
  };
  do {
    pools_.TakeClosed(bury);
    pools_.Dispatch();
    // A stream that is reset leaves its place to who waits.
    pools_.ForEach([](H2Connection& connection) { connection.Flush(); });
  } while (pools_.Due());
}

void H2Loop::EndAll() {
  for (const uint64_t id : exchanges_.Ids([](const H2Exchange&) { return true; })) {
    if (H2Exchange* const exchange = exchanges_.Find(id)) {
      Abort(*exchange, LoopStopped());
    }
  }
}

void H2Loop::Wait() {
  bool more = false;
  BootTime next = pools_.NextDial();
  next = std::min(next, exchanges_.NextTimer());
  pools_.ForEach([&more, &next](const H2Connection& connection) {
    more |= connection.more();
    next = std::min(next, connection.Deadline());
  });
  absl::Duration wait = std::clamp(next - setup_.now, absl::ZeroDuration(), kLongestWait);
  {
    absl::MutexLock lock(&mutex_);
    if (!tasks_.empty() || stopping_ || more) wait = absl::ZeroDuration();
    waiting_ = wait > absl::ZeroDuration();
  }
  constexpr int kEvents = 16;
  epoll_event events[kEvents];
  // Rounded up, or it would turn round until the timer is due.
  const auto whole = absl::ToInt64Milliseconds(absl::Ceil(wait, absl::Milliseconds(1)));
  const int count = ::epoll_wait(epoll_, events, kEvents, static_cast<int>(whole));
  {
    absl::MutexLock lock(&mutex_);
    waiting_ = false;
  }
  setup_.now = clock_->Read().boot;
  for (int i = 0; i < count; ++i) {
    if (events[i].data.u64 == kWake) continue;
    if (H2Connection* const connection = pools_.Find(events[i].data.u64)) {
      connection->OnEvents(events[i].events);
    }
  }
  if (!more) return;
  pools_.ForEach([](H2Connection& connection) {
    if (connection.more() && !connection.closed()) connection.ReadMore();
  });
}

void H2Loop::Loop() {
  thread_id_ = std::this_thread::get_id();
  // Signals are for other threads; one of a broken connection is for none.
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
  while (true) {
    RunTasks();
    FireTimers();
    ServeConnections();
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
  pools_.ForEach([](H2Connection& connection) { connection.Close(); });
  pools_.Clear();
}

}  // namespace capstan::kube
