#include "libs/kube/events/event_recorder.h"

#include <map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "libs/kube/client/request.h"
#include "libs/kube/client/retry.h"
#include "libs/kube/client/typed_client.h"
#include "libs/random/random.h"
#include "libs/status/error.h"
#include "libs/strand/notify_when_gone.h"
#include "libs/strand/strand.h"
#include "libs/time/clock.h"

namespace capstan::kube {
class EventRecorder::State : public std::enable_shared_from_this<State> {
 public:
  State(EventOptions options, EventRecorderDependencies dependencies)
      : client_(dependencies.client),
        strand_(client_->strand()),
        log_(std::move(dependencies.log)),
        codec_(MakeCodec<events_v1::Event>(kEvents.type())),
        random_(dependencies.seed),
        core_(std::move(options), &random_) {}

  bool Record(const EventRecord& record) {
    absl::MutexLock lock(&mutex_);
    if (closed_) {
      core_.Drop();
      return false;
    }
    if (!core_.Add(record, strand_->clock().Read())) return false;
    if (!pump_posted_) {
      pump_posted_ = true;
      strand_->Post([weak = weak_from_this()] {
        if (const auto self = weak.lock()) self->Pump();
      });
    }
    return true;
  }

  void Stop(absl::Duration flush) {
    {
      absl::MutexLock lock(&mutex_);
      if (closed_) return;
      closed_ = true;
      core_.Flush();
    }
    absl::Notification stopped;
    NotifyWhenGone once_gone(&stopped);
    strand_->Post([self = shared_from_this(), flush, once_gone = std::move(once_gone)]() mutable {
      self->stopping_ = std::move(once_gone);
      if (flush > absl::ZeroDuration()) {
        self->end_timer_ = self->strand_->RunAfter(flush, [weak = self->weak_from_this()] {
          if (const auto held = weak.lock()) held->End();
        });
        self->Pump();
      } else {
        self->End();
      }
    });
    stopped.WaitForNotification();
    absl::MutexLock lock(&mutex_);
    core_.Abandon();
  }

  EventStats stats() const {
    absl::MutexLock lock(&mutex_);
    return core_.stats();
  }

 private:
  // On the strand, as all that follows.
  void Pump() {
    if (ended_) return;
    std::vector<EventCall> calls;
    BootTime wake;
    bool is_over = false;
    {
      absl::MutexLock lock(&mutex_);
      pump_posted_ = false;
      calls = core_.TakeDue(strand_->clock().Read().boot);
      wake = core_.NextWake();
      is_over = closed_ && core_.idle();
    }
    for (EventCall& call : calls) Send(std::move(call));
    if (timer_ != 0) strand_->Cancel(timer_);
    timer_ = 0;
    if (is_over && stopping_ != nullptr) return End();
    if (wake == BootTime::InfiniteFuture()) return;
    timer_ = strand_->RunAt(wake, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) {
        self->timer_ = 0;
        self->Pump();
      }
    });
  }

  void Send(EventCall call) {
    const std::string& ns = call.event.metadata().namespace_();
    ApiRequest request;
    if (call.is_patch) {
      PatchOptions options;
      options.repeatable = true;
      request = PatchRequest(kEvents.type(), ns, call.event.metadata().name(), "",
                             PatchType::kMerge, std::move(call.patch), options, codec_->encoding());
    } else {
      request = CreateRequest(kEvents.type(), ns, codec_->Write(call.event), WriteOptions(),
                              codec_->encoding());
      // It has a name of its own: the second finds the first.
      request.repeat = Repeat::kHarmless;
    }
    calls_[call.series] = client_->Start(
        std::move(request),
        [weak = weak_from_this(), series = call.series](const absl::StatusOr<ApiResponse>& answer) {
          if (const auto self = weak.lock()) self->OnAnswer(series, answer.status());
        });
  }

  void OnAnswer(uint64_t series, const absl::Status& status) {
    if (ended_) return;
    calls_.erase(series);
    bool gave_up = false;
    {
      absl::MutexLock lock(&mutex_);
      const int64_t failed = core_.stats().failed;
      core_.OnAnswer(series, status, strand_->clock().Read().boot);
      gave_up = core_.stats().failed > failed;
    }
    // Each kind of trouble once, till something goes well.
    const bool is_new = gave_up && (failure_.code() != status.code() ||
                                    status::Reason(failure_) != status::Reason(status));
    if (gave_up || status.ok()) failure_ = status;
    if (is_new && log_.has_value()) log_->Warning("event not written", {{"error", status}});
    Pump();
  }

  void End() {
    if (ended_) return;
    ended_ = true;
    calls_.clear();
    for (const Strand::TimerId timer : {timer_, end_timer_}) {
      if (timer != 0) strand_->Cancel(timer);
    }
    stopping_ = nullptr;
  }

  Client* const client_;
  Strand* const strand_;
  const absl::optional<log::Logger> log_;
  const std::shared_ptr<const Codec<events_v1::Event>> codec_;

  mutable absl::Mutex mutex_;
  Random random_ ABSL_GUARDED_BY(mutex_);
  EventCore core_ ABSL_GUARDED_BY(mutex_);
  bool pump_posted_ ABSL_GUARDED_BY(mutex_) = false;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;

  // Of the strand.
  std::map<uint64_t, std::unique_ptr<PendingCall>> calls_;
  Strand::TimerId timer_ = 0;
  Strand::TimerId end_timer_ = 0;
  // The last that was given up; OK: things went well since.
  absl::Status failure_;
  bool ended_ = false;
  NotifyWhenGone stopping_;
};

EventRecorder::EventRecorder(EventOptions options, EventRecorderDependencies dependencies)
    : state_(std::make_shared<State>(std::move(options), std::move(dependencies))) {}

EventRecorder::~EventRecorder() { Stop(absl::ZeroDuration()); }

bool EventRecorder::Record(const EventRecord& record) { return state_->Record(record); }
void EventRecorder::Stop(absl::Duration flush) { state_->Stop(flush); }
EventStats EventRecorder::stats() const { return state_->stats(); }

}  // namespace capstan::kube
