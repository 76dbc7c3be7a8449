#include "libs/kube/testing/fake_api_server.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/kube/testing/api_body.h"
#include "libs/kube/transport/transport_error.h"
#include "libs/status/error.h"

namespace capstan::kube::testing {
namespace {

// The server's last bookmark comes so long before a watch ends.
constexpr absl::Duration kLastBookmark = absl::Seconds(2);

absl::Status Ended(absl::StatusCode code, const char* reason) {
  return status::Error(code, reason, "the fake API server ended the call, as a test asked for");
}
absl::Status Broken() { return Ended(absl::StatusCode::kUnavailable, kBroken); }
absl::Status TimedOut() { return Ended(absl::StatusCode::kDeadlineExceeded, kTimedOut); }

uint64_t Fnv1a(absl::string_view bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : bytes) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  return hash;
}

template <typename T>
const T* FindAction(const std::vector<FaultAction>& actions) {
  for (const FaultAction& action : actions) {
    if (const T* const found = std::get_if<T>(&action)) return found;
  }
  return nullptr;
}

bool IsSendable(const HttpRequest& request) {
  if (request.target.empty() || request.target[0] != '/') return false;
  if (request.target.find_first_of(" \r\n") != std::string::npos) return false;
  return std::none_of(request.headers.begin(), request.headers.end(), [](const HttpHeader& header) {
    return absl::StrContains(header.name, "\n") || absl::StrContains(header.value, "\n") ||
           absl::StrContains(header.value, "\r");
  });
}

}  // namespace

class FakeApiServer::FakeCall final : public Call {
 public:
  FakeCall(FakeApiServer* server, Id id, std::shared_ptr<FakeExchange> exchange)
      : server_(server), id_(id), exchange_(std::move(exchange)) {}
  ~FakeCall() override {
    exchange_->Cancel();
    server_->Forget(id_);
  }
  void Resume() override { exchange_->Resume(); }

 private:
  FakeApiServer* const server_;
  const Id id_;
  const std::shared_ptr<FakeExchange> exchange_;
};

class FakeApiServer::FakeTransport final : public Transport {
 public:
  explicit FakeTransport(FakeApiServer* server) : server_(server) {}
  ~FakeTransport() override {
    std::vector<std::weak_ptr<FakeExchange>> exchanges;
    {
      absl::MutexLock lock(&mutex_);
      exchanges.swap(exchanges_);
    }
    for (const std::weak_ptr<FakeExchange>& weak : exchanges) {
      if (const std::shared_ptr<FakeExchange> exchange = weak.lock()) {
        exchange->Break(Ended(absl::StatusCode::kCancelled, kStopped));
      }
    }
  }

  std::unique_ptr<Call> Start(HttpRequest request, ResponseHandler* handler) override {
    Id id = 0;
    std::shared_ptr<FakeExchange> exchange = server_->Accept(std::move(request), handler, &id);
    {
      absl::MutexLock lock(&mutex_);
      exchanges_.erase(
          std::remove_if(exchanges_.begin(), exchanges_.end(),
                         [](const std::weak_ptr<FakeExchange>& weak) { return weak.expired(); }),
          exchanges_.end());
      exchanges_.push_back(exchange);
    }
    return std::make_unique<FakeCall>(server_, id, std::move(exchange));
  }

 private:
  FakeApiServer* const server_;
  absl::Mutex mutex_;
  std::vector<std::weak_ptr<FakeExchange>> exchanges_ ABSL_GUARDED_BY(mutex_);
};

FakeApiServer::FakeApiServer(FakeApiServerOptions options, SimulatedStrand* strand)
    : FakeApiServer(std::move(options), nullptr, strand) {}

FakeApiServer::FakeApiServer(FakeApiServerOptions options, const Clock* clock)
    : FakeApiServer(std::move(options), std::make_unique<ThreadStrand>("fake-apiserver", clock),
                    nullptr) {}

FakeApiServer::FakeApiServer(FakeApiServerOptions options, std::unique_ptr<ThreadStrand> own,
                             SimulatedStrand* simulated)
    : options_(std::move(options)),
      own_strand_(std::move(own)),
      simulated_(simulated),
      strand_(own_strand_ != nullptr ? static_cast<Strand*>(own_strand_.get()) : simulated),
      random_(options_.seed),
      state_(options_.state, &strand_->clock(), &random_),
      http_(&state_, options_.converter, options_.git_version) {}

FakeApiServer::~FakeApiServer() {
  if (own_strand_ != nullptr) own_strand_->Stop();
  alive_.reset();
  absl::MutexLock lock(&mutex_);
  for (auto& [id, served] : served_) {
    for (const Strand::TimerId timer : served.timers) strand_->Cancel(timer);
  }
  served_.clear();
}

void FakeApiServer::Post(std::function<void()> task) {
  strand_->Post([alive = std::weak_ptr<bool>(alive_), task = std::move(task)] {
    if (alive.lock() != nullptr) task();
  });
}

std::unique_ptr<Transport> FakeApiServer::NewTransport() {
  return std::make_unique<FakeTransport>(this);
}

void FakeApiServer::RunUntilIdle() { simulated_->RunReady(); }

void FakeApiServer::AdvanceTo(BootTime when) {
  simulated_->Advance(when - simulated_->clock().Read().boot);
}

std::shared_ptr<FakeExchange> FakeApiServer::Accept(HttpRequest request, ResponseHandler* handler,
                                                    Id* id) {
  absl::MutexLock lock(&mutex_);
  *id = next_id_++;
  const auto exchange = std::make_shared<FakeExchange>(
      std::move(request), handler, [this, id = *id] { Post([this, id] { Pump(id); }); });
  served_[*id].exchange = exchange;
  Post([this, id = *id] { Begin(id); });
  return exchange;
}

void FakeApiServer::Forget(Id id) {
  absl::MutexLock lock(&mutex_);
  const auto found = served_.find(id);
  if (found == served_.end()) return;
  for (const Strand::TimerId timer : found->second.timers) strand_->Cancel(timer);
  served_.erase(found);
}

void FakeApiServer::Arm(Served* served, absl::Duration delay, Strand::Task task) {
  served->timers.push_back(strand_->RunAfter(delay, std::move(task)));
}

void FakeApiServer::Record(const HttpRequest& request) {
  ++counters_.requests;
  if (records_.size() >= options_.max_records) return;
  RecordedRequest record{strand_->clock().Read().boot, request.method,     request.target, {},
                         request.body.size(),          Fnv1a(request.body)};
  for (const HttpHeader& header : request.headers) {
    if (!absl::EqualsIgnoreCase(header.name, "Authorization")) record.headers.push_back(header);
  }
  records_.push_back(std::move(record));
}

void FakeApiServer::Begin(Id id) {
  bool respond_now = false;
  absl::optional<absl::Status> end;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = served_.find(id);
    if (found == served_.end()) return;
    Served& served = found->second;
    const HttpRequest& request = served.exchange->request();
    if (!IsSendable(request)) {
      end = Ended(absl::StatusCode::kInvalidArgument, kBadRequest);
    } else {
      served.faults = faults_.Take(request);
      served.active = strand_->clock().Read().boot;
      if (request.timeout < absl::InfiniteDuration()) {
        Arm(&served, request.timeout, [this, id] { Break(id, TimedOut()); });
      }
      if (request.idle_timeout < absl::InfiniteDuration()) {
        Arm(&served, request.idle_timeout, [this, id] { CheckIdle(id); });
      }
      if (FindAction<NotSent>(served.faults) != nullptr) {
        end = Ended(absl::StatusCode::kUnavailable, kNotSent);
      } else {
        Record(request);
        if (FindAction<BrokenBefore>(served.faults) != nullptr) {
          end = Broken();
        } else if (FindAction<Hang>(served.faults) == nullptr) {
          const Delayed* const delayed = FindAction<Delayed>(served.faults);
          respond_now = delayed == nullptr;
          if (delayed != nullptr) {
            Arm(&served, delayed->delay, [this, id] { Respond(id, /*has_waited=*/false); });
          }
        }
      }
    }
  }
  if (end.has_value()) Break(id, *std::move(end));
  if (respond_now) Respond(id, /*has_waited=*/false);
}

void FakeApiServer::Respond(Id id, bool has_waited) {
  bool broken = false;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = served_.find(id);
    if (found == served_.end() || found->second.exchange->done()) return;
    Served& served = found->second;
    // Answered meanwhile.
    if (has_waited && served.wait_for == 0) return;
    served.wait_for = 0;
    HttpReply reply;
    if (const auto* const answer = FindAction<Answer>(served.faults)) {
      reply = ErrorReply(answer->error);
    } else if (const auto* const text = FindAction<AnswerText>(served.faults)) {
      reply.head = {text->code, {{"Content-Type", "text/html"}}};
      reply.body = text->text;
    } else {
      if (FindAction<CompactFirst>(served.faults) != nullptr) {
        state_.Compact(state_.store().revision());
      }
      if (const Stale* const stale = FindAction<Stale>(served.faults)) {
        served.handling.stale_by = stale->revisions;
      }
      served.handling.has_waited = has_waited;
      reply = http_.Handle(served.exchange->request(), served.handling);
      Settle();
    }
    if (reply.wait_for != 0) {
      served.wait_for = reply.wait_for;
      Arm(&served, kFreshWait, [this, id] { Respond(id, /*has_waited=*/true); });
      return;
    }
    broken = FindAction<BrokenAfter>(served.faults) != nullptr;
    if (!broken) SendReply(id, &served, std::move(reply));
  }
  if (broken) {
    Break(id, Broken());
  } else {
    Pump(id);
  }
}

void FakeApiServer::SendReply(Id id, Served* served, HttpReply reply) {
  ++counters_.answers[reply.head.status];
  served->exchange->PushHead(std::move(reply.head));
  if (!reply.watch.has_value()) {
    if (const Torn* const torn = FindAction<Torn>(served->faults)) {
      served->exchange->PushBytes(reply.body.substr(0, torn->after_bytes));
      served->exchange->PushEnd(Broken());
      return;
    }
    served->exchange->PushBytes(std::move(reply.body));
    served->exchange->PushEnd(absl::OkStatus());
    return;
  }
  const absl::Duration timeout = reply.watch->timeout;
  served->cursor =
      std::make_unique<WatchCursor>(*std::move(reply.watch), &state_, options_.converter);
  if (timeout < absl::InfiniteDuration()) {
    Arm(served, timeout, [this, id] { EndWatch(id); });
    if (timeout > kLastBookmark) Arm(served, timeout - kLastBookmark, [this, id] { Bookmark(id); });
  }
  Arm(served, options_.bookmark_interval, [this, id] { Bookmark(id); });
}

void FakeApiServer::PollCursor(Served* served) {
  WatchCursor& cursor = *served->cursor;
  const auto* const expire = FindAction<ExpireWatch>(served->faults);
  const auto* const close = FindAction<CloseWatch>(served->faults);
  const Torn* const torn = FindAction<Torn>(served->faults);
  const int64_t most = expire != nullptr  ? expire->after_events
                       : close != nullptr ? close->after_events
                                          : -1;
  std::string bytes;
  for (std::string& frame : cursor.Poll()) {
    if (most >= 0 && served->events >= most) break;
    ++served->events;
    ++counters_.watch_events;
    bytes += frame;
  }
  if (most >= 0 && served->events >= most && !cursor.ended()) {
    if (expire != nullptr) {
      bytes += cursor.Error(Expired("too old resource version: a fault of the fake API server"));
    } else {
      cursor.Close();
    }
  }
  if (torn != nullptr && served->sent + bytes.size() >= torn->after_bytes) {
    served->exchange->PushBytes(bytes.substr(0, torn->after_bytes - served->sent));
    served->exchange->PushEnd(Broken());
    return;
  }
  served->sent += bytes.size();
  served->exchange->PushBytes(std::move(bytes));
  if (cursor.ended()) served->exchange->PushEnd(absl::OkStatus());
}

void FakeApiServer::Pump(Id id) {
  while (true) {
    std::shared_ptr<FakeExchange> exchange;
    size_t most = absl::string_view::npos;
    absl::Duration interval;
    {
      absl::MutexLock lock(&mutex_);
      const auto found = served_.find(id);
      if (found == served_.end()) return;
      Served& served = found->second;
      exchange = served.exchange;
      if (served.slow_piece_due) return;
      if (served.cursor != nullptr && exchange->hungry()) PollCursor(&served);
      if (const Slow* const slow = FindAction<Slow>(served.faults)) {
        most = std::max<size_t>(slow->bytes, 1);
        interval = slow->interval;
      }
    }
    const bool more = exchange->Deliver(most);
    if (exchange->done()) {
      Forget(id);
      return;
    }
    absl::MutexLock lock(&mutex_);
    const auto found = served_.find(id);
    if (found == served_.end()) return;
    if (const int64_t told = exchange->told(); told != found->second.told) {
      found->second.told = told;
      found->second.active = strand_->clock().Read().boot;
    }
    if (more && interval > absl::ZeroDuration()) {
      found->second.slow_piece_due = true;
      Arm(&found->second, interval, [this, id] {
        {
          absl::MutexLock relock(&mutex_);
          const auto due = served_.find(id);
          if (due != served_.end()) due->second.slow_piece_due = false;
        }
        Pump(id);
      });
      return;
    }
    if (!more) return;
  }
}

void FakeApiServer::Settle() {
  state_.RunControllers();
  if (pump_posted_) return;
  pump_posted_ = true;
  Post([this] { PumpAll(); });
}

void FakeApiServer::PumpAll() {
  std::vector<Id> watches;
  std::vector<Id> waiting;
  {
    absl::MutexLock lock(&mutex_);
    pump_posted_ = false;
    for (auto& [id, served] : served_) {
      if (served.wait_for != 0 && served.wait_for <= state_.store().revision()) {
        waiting.push_back(id);
      } else if (served.cursor != nullptr) {
        watches.push_back(id);
      }
    }
  }
  for (const Id id : watches) {
    Pump(id);
    bool unserved = false;
    {
      absl::MutexLock lock(&mutex_);
      const auto found = served_.find(id);
      if (found != served_.end() && found->second.cursor != nullptr) {
        const FakeType* const type = found->second.cursor->plan().type;
        const auto& types = state_.types();
        unserved = std::find(types.begin(), types.end(), type) == types.end();
      }
    }
    // Its definition is gone, or another one by now.
    if (unserved) EndWatch(id);
  }
  for (const Id id : waiting) Respond(id, /*has_waited=*/false);
}

void FakeApiServer::Bookmark(Id id) {
  {
    absl::MutexLock lock(&mutex_);
    const auto found = served_.find(id);
    if (found == served_.end() || found->second.cursor == nullptr) return;
    Served& served = found->second;
    if (served.exchange->hungry()) {
      PollCursor(&served);
      std::string frame = served.cursor->Bookmark();
      if (!frame.empty()) {
        ++counters_.watch_events;
        ++served.events;
        served.exchange->PushBytes(std::move(frame));
      }
    }
    Arm(&served, options_.bookmark_interval, [this, id] { Bookmark(id); });
  }
  Pump(id);
}

void FakeApiServer::EndWatch(Id id) {
  {
    absl::MutexLock lock(&mutex_);
    const auto found = served_.find(id);
    if (found == served_.end() || found->second.cursor == nullptr) return;
    found->second.exchange->PushEnd(absl::OkStatus());
  }
  Pump(id);
}

void FakeApiServer::CheckIdle(Id id) {
  bool idle = false;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = served_.find(id);
    if (found == served_.end()) return;
    Served& served = found->second;
    const absl::Duration limit = served.exchange->request().idle_timeout;
    const absl::Duration rested = strand_->clock().Read().boot - served.active;
    if (served.exchange->paused()) {
      Arm(&served, limit, [this, id] { CheckIdle(id); });
    } else if (rested < limit) {
      Arm(&served, limit - rested, [this, id] { CheckIdle(id); });
    } else {
      idle = true;
    }
  }
  if (idle) Break(id, TimedOut());
}

void FakeApiServer::Break(Id id, absl::Status status) {
  std::shared_ptr<FakeExchange> exchange;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = served_.find(id);
    if (found == served_.end()) return;
    exchange = found->second.exchange;
  }
  exchange->Break(std::move(status));
  Forget(id);
}

}  // namespace capstan::kube::testing
