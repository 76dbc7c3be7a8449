#include "libs/kube/informer/list_watch_loop.h"

#include <utility>
#include <variant>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/optional.h"
#include "libs/random/random.h"
#include "libs/status/error.h"
#include "libs/time/clock.h"

namespace capstan::kube {
namespace {

RequestEnd EndOf(int code) {
  if (code == 410) return RequestEnd::kExpired;
  if (code == 400 || code == 422) return RequestEnd::kInvalid;
  return RequestEnd::kFailed;
}

absl::StatusCode StatusCodeOf(int code) {
  switch (code) {
    case 400:
    case 422:
      return absl::StatusCode::kInvalidArgument;
    case 401:
      return absl::StatusCode::kUnauthenticated;
    case 403:
      return absl::StatusCode::kPermissionDenied;
    case 404:
      return absl::StatusCode::kNotFound;
    case 410:
      return absl::StatusCode::kOutOfRange;
    case 429:
      return absl::StatusCode::kResourceExhausted;
    default:
      return absl::StatusCode::kUnavailable;
  }
}

// Seconds alone: no API server sends a date.
absl::optional<absl::Duration> RetryAfter(const std::vector<HttpHeader>& headers) {
  const absl::optional<absl::string_view> value = FindHeader(headers, "Retry-After");
  uint32_t seconds = 0;
  if (!value.has_value() || !absl::SimpleAtoi(*value, &seconds)) return absl::nullopt;
  return absl::Seconds(seconds);
}

// Of a watch, beside what the decoder holds; one piece of the transport's more.
constexpr size_t kMaxUndecodedBytes = 256 << 10;

struct Failure {
  RequestEnd end = RequestEnd::kFailed;
  absl::optional<absl::Duration> retry_after;
  absl::Status status;
};

}  // namespace

class ListWatchLoop::State : public std::enable_shared_from_this<State> {
 public:
  State(ObjectScope scope, Encoding encoding, const ListWatchOptions& options, Transport* transport,
        Strand* strand, uint64_t seed, ObjectIntake* intake)
      : scope_(std::move(scope)),
        encoding_(encoding),
        options_(options),
        transport_(transport),
        strand_(strand),
        intake_(intake),
        random_(seed),
        reflector_(options.reflector, &random_) {}

  void Start() {
    strand_->Post([weak = weak_from_this()] {
      Visit(weak, [](State* state) {
        state->mutex_.AssertHeld();
        state->CarryOut(state->reflector_.Start(state->Now()));
      });
    });
  }

  void Stop() {
    std::unique_ptr<Exchange> exchange;
    {
      absl::MutexLock lock(&mutex_);
      stopped_ = true;
      reflector_.Stop();
      if (timer_ != 0) strand_->Cancel(timer_);
      timer_ = 0;
      exchange = std::move(exchange_);
    }
  }

 private:
  // One call with what is held for it. Its methods run on a thread of the transport's and do little
  // but post, so that a call can be destroyed under the state's lock.
  class Exchange final : public ResponseHandler {
   public:
    Exchange(uint64_t attempt, bool is_watch, std::weak_ptr<State> state, const State& of)
        : attempt(attempt),
          is_watch_(is_watch),
          state_(std::move(state)),
          strand_(of.strand_->remote()),
          media_type_(MediaType(of.encoding_)),
          max_list_bytes_(of.options_.max_list_bytes),
          what_(absl::StrCat(is_watch ? "watch" : "list", " of ", kube::ToString(of.scope_))) {}

    // First, so that no method runs on what is gone.
    ~Exchange() override { call = nullptr; }

    void OnHead(HttpHead head) override {
      if (head.status != 200) {
        Fail({EndOf(head.status), RetryAfter(head.headers), Refused(head.status)});
        return;
      }
      const absl::optional<absl::string_view> type = FindHeader(head.headers, "Content-Type");
      if (type.has_value() && !absl::StartsWithIgnoreCase(*type, media_type_)) {
        Fail({RequestEnd::kFailed, absl::nullopt,
              status::Error(absl::StatusCode::kUnavailable, kUnexpectedContent,
                            absl::StrCat(what_, ": the answer's Content-Type is not ", media_type_,
                                         "; check that the address is that of an API server and "
                                         "that the resource has this encoding"))});
      }
    }

    bool OnBytes(absl::string_view bytes) override {
      if (failed_) return false;
      if (is_watch_) return OnWatchBytes(bytes);
      if (bytes.size() > max_list_bytes_ - body_.size()) {
        Fail({RequestEnd::kFailed, absl::nullopt,
              status::Error(absl::StatusCode::kResourceExhausted, kListTooLarge,
                            absl::StrCat(what_, ": a page is larger than ", max_list_bytes_,
                                         " bytes; ask for smaller pages or raise the limit"))});
        return false;
      }
      body_.append(bytes.data(), bytes.size());
      return true;
    }

    void OnEnd(absl::Status status) override {
      if (failed_) return;
      if (!status.ok()) {
        Fail({RequestEnd::kFailed, absl::nullopt, status::Annotate(status, what_)});
      } else if (is_watch_) {
        Post([](State* state, uint64_t attempt) {
          state->mutex_.AssertHeld();
          state->OnWatchEnd(attempt);
        });
      } else {
        Post([body = std::move(body_)](State* state, uint64_t attempt) {
          state->mutex_.AssertHeld();
          state->OnPage(attempt, body);
        });
      }
    }

    // What has come of a watch and was not decoded; `resume` if the transport waits for that.
    std::string TakeWatchBytes(bool* resume) {
      absl::MutexLock lock(&inbox_mutex_);
      posted_ = false;
      *resume = std::exchange(full_, false);
      return std::exchange(inbox_, {});
    }

    const std::string& what() const { return what_; }
    absl::Status Refused(int code) const {
      std::string advice = "it is tried again";
      if (code == 401) advice = "check the credential";
      if (code == 403) advice = "let the account list and watch this resource";
      if (code == 404) advice = "check that the server has this resource (CRD, version)";
      return status::Error(StatusCodeOf(code), kListWatchRefused,
                           absl::StrCat(what_, ": HTTP ", code, "; ", advice));
    }

    const uint64_t attempt;
    std::unique_ptr<watch::Decoder> decoder;
    std::unique_ptr<Call> call;

   private:
    bool OnWatchBytes(absl::string_view bytes) {
      bool post = false;
      bool full = false;
      {
        absl::MutexLock lock(&inbox_mutex_);
        inbox_.append(bytes.data(), bytes.size());
        full_ = full = inbox_.size() >= kMaxUndecodedBytes;
        post = !std::exchange(posted_, true);
      }
      if (post) {
        Post([](State* state, uint64_t attempt) {
          state->mutex_.AssertHeld();
          state->OnWatchBytes(attempt);
        });
      }
      return !full;
    }
    void Fail(Failure failure) {
      failed_ = true;
      Post([failure = std::move(failure)](State* state, uint64_t attempt) {
        state->mutex_.AssertHeld();
        state->OnFailure(attempt, failure);
      });
    }
    template <typename Function>
    void Post(Function function) {
      strand_.Post([weak = state_, attempt = attempt, function = std::move(function)] {
        Visit(weak, [&](State* state) {
          state->mutex_.AssertHeld();
          function(state, attempt);
        });
      });
    }

    const bool is_watch_;
    const std::weak_ptr<State> state_;
    const Strand::Remote strand_;
    const absl::string_view media_type_;
    const size_t max_list_bytes_;
    const std::string what_;
    std::string body_;
    // Told already; what else comes counts no more.
    bool failed_ = false;
    // Of a watch: taken by the strand as it comes to it, so that a fast stream costs it one turn for
    // many pieces.
    absl::Mutex inbox_mutex_;
    std::string inbox_ ABSL_GUARDED_BY(inbox_mutex_);
    // The strand will look into it.
    bool posted_ ABSL_GUARDED_BY(inbox_mutex_) = false;
    bool full_ ABSL_GUARDED_BY(inbox_mutex_) = false;
  };

  template <typename Function>
  static void Visit(const std::weak_ptr<State>& weak, const Function& function) {
    const std::shared_ptr<State> state = weak.lock();
    if (state == nullptr) return;
    absl::MutexLock lock(&state->mutex_);
    if (!state->stopped_) function(state.get());
  }

  BootTime Now() const { return strand_->clock().Read().boot; }
  bool IsCurrent(uint64_t attempt) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return exchange_ != nullptr && exchange_->attempt == attempt;
  }

  void OnPage(uint64_t attempt, absl::string_view body) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!IsCurrent(attempt)) return;
    const auto page = intake_->TakePage(body);
    if (!page.ok()) {
      OnFailure(attempt, {RequestEnd::kFailed, absl::nullopt,
                          status::Annotate(page.status(), exchange_->what())});
      return;
    }
    CarryOut(reflector_.OnPage(attempt, page->resource_version, page->continue_token, Now()));
  }

  void OnWatchBytes(uint64_t attempt) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!IsCurrent(attempt)) return;
    bool resume = false;
    exchange_->decoder->Append(exchange_->TakeWatchBytes(&resume));
    while (IsCurrent(attempt)) {
      auto event = exchange_->decoder->Next();
      if (!event.ok()) {
        OnFailure(attempt, {RequestEnd::kFailed, absl::nullopt,
                            status::Annotate(event.status(), exchange_->what())});
        return;
      }
      if (!event->has_value()) {
        if (resume) exchange_->call->Resume();
        return;
      }
      OnEvent(attempt, **event);
    }
  }

  void OnEvent(uint64_t attempt, const watch::Event& event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (event.type == watch::EventType::kError) {
      OnFailure(attempt, {EndOf(event.status.code), event.status.retry_after,
                          exchange_->Refused(event.status.code)});
      return;
    }
    if (event.type == watch::EventType::kBookmark) {
      CarryOut(
          reflector_.OnBookmark(attempt, event.resource_version, event.initial_events_end, Now()));
      return;
    }
    const auto resource_version = intake_->TakeEvent(event.type, event.object);
    if (!resource_version.ok()) {
      OnFailure(attempt, {RequestEnd::kFailed, absl::nullopt,
                          status::Annotate(resource_version.status(), exchange_->what())});
      return;
    }
    CarryOut(reflector_.OnEvent(attempt, *resource_version, Now()));
  }

  void OnWatchEnd(uint64_t attempt) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!IsCurrent(attempt)) return;
    const absl::Status torn = exchange_->decoder->Finish();
    if (!torn.ok()) {
      OnFailure(attempt, {RequestEnd::kFailed, absl::nullopt, torn});
      return;
    }
    exchange_ = nullptr;
    CarryOut(reflector_.OnEnd(attempt, RequestEnd::kClean, absl::nullopt, Now()));
  }

  void OnFailure(uint64_t attempt, const Failure& failure) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!IsCurrent(attempt)) return;
    intake_->OnFailure(failure.status);
    exchange_ = nullptr;
    CarryOut(reflector_.OnEnd(attempt, failure.end, failure.retry_after, Now()));
  }

  void OnTimer(uint64_t attempt) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    timer_ = 0;
    CarryOut(reflector_.OnTimer(attempt, Now()));
  }

  void CarryOut(const ReflectorStep& step) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    intake_->Settle(step.objects);
    for (const auto& effect : step.effects) {
      std::visit([this](const auto& known) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { Do(known); },
                 effect);
    }
  }

  void Do(const ListPageRequest& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (request.continue_token.empty()) intake_->OnListBegun();
    HttpRequest http;
    http.target = ListTarget(scope_, request);
    http.timeout = options_.list_timeout;
    Send(std::move(http), request.attempt, /*is_watch=*/false);
  }
  void Do(const WatchRequest& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (request.initial_events) {
      intake_->OnListBegun();
    } else {
      intake_->OnWatchBegun();
    }
    HttpRequest http;
    http.target = WatchTarget(scope_, request);
    http.timeout = absl::InfiniteDuration();
    http.idle_timeout = options_.watch_idle_timeout;
    Send(std::move(http), request.attempt, /*is_watch=*/true);
  }
  void Do(const SleepUntil& sleep) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    // Timers of attempts before count no more.
    if (timer_ != 0) strand_->Cancel(timer_);
    timer_ = strand_->RunAt(sleep.when, [weak = weak_from_this(), attempt = sleep.attempt] {
      Visit(weak, [&](State* state) {
        state->mutex_.AssertHeld();
        state->OnTimer(attempt);
      });
    });
  }
  void Do(const CancelRequest& cancel) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (IsCurrent(cancel.attempt)) exchange_ = nullptr;
  }

  void Send(HttpRequest http, uint64_t attempt, bool is_watch)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    http.headers.push_back({"Accept", MediaType(encoding_)});
    exchange_ = std::make_unique<Exchange>(attempt, is_watch, weak_from_this(), *this);
    if (is_watch) {
      if (encoding_ == Encoding::kJson) {
        exchange_->decoder = std::make_unique<watch::JsonDecoder>(options_.max_event_bytes);
      } else {
        exchange_->decoder = std::make_unique<watch::ProtobufDecoder>(options_.max_event_bytes);
      }
    }
    exchange_->call = transport_->Start(std::move(http), exchange_.get());
  }

  const ObjectScope scope_;
  const Encoding encoding_;
  const ListWatchOptions options_;
  Transport* const transport_;
  Strand* const strand_;
  ObjectIntake* const intake_;

  // Only Stop contends with the strand for it.
  absl::Mutex mutex_;
  Random random_ ABSL_GUARDED_BY(mutex_);
  Reflector reflector_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Exchange> exchange_ ABSL_GUARDED_BY(mutex_);
  Strand::TimerId timer_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

ListWatchLoop::ListWatchLoop(ObjectScope scope, Encoding encoding, const ListWatchOptions& options,
                             Transport* transport, Strand* strand, uint64_t seed,
                             ObjectIntake* intake)
    : state_(std::make_shared<State>(std::move(scope), encoding, options, transport, strand, seed,
                                     intake)) {}
ListWatchLoop::~ListWatchLoop() { Stop(); }
void ListWatchLoop::Start() { state_->Start(); }
void ListWatchLoop::Stop() { state_->Stop(); }

}  // namespace capstan::kube
