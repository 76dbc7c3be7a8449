#include "libs/store/etcd_watcher.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/rpc/session_client.h"
#include "libs/store/etcd_errors.h"
#include "libs/store/etcd_messages.h"
#include "libs/store/etcd_range.h"
#include "libs/store/txn_rules.h"

namespace capstan::store {
namespace {

using WatchCalls = etcdserverpb::Watch::StubInterface::async_interface;

// A member feeds a new watch from history every 100 ms, and answers no question before it is done.
constexpr absl::Duration kFirstProgress = absl::Milliseconds(120);

}  // namespace

EtcdWatcher::EtcdWatcher(std::shared_ptr<EtcdClient> client, WatchRequest request, OnBatch on_batch)
    : client_(std::move(client)),
      request_(std::move(request)),
      on_batch_(std::move(on_batch)),
      next_(request_.start_revision),
      backoff_(client_->random(), {.initial = absl::Milliseconds(20), .max = absl::Seconds(1)}) {}

void EtcdWatcher::Start() { Look(); }

void EtcdWatcher::Look() {
  // The member that serves the stream may be behind, and may tell of its own newest revision before
  // it tells of events: the revision to begin with is read from the cluster.
  ReadEtcdRange(client_, nullptr, {.key = request_.key, .limit = 1},
                [self = shared_from_this()](absl::StatusOr<RangeResult> found) {
                  if (self->cancelled_) return;
                  if (found.ok()) return self->Found(found->revision);
                  // A watch goes on trying where a call gives up.
                  if (ClassifyEtcdError(found.status()) == EtcdOutcome::kAnswered ||
                      self->client_->closed()) {
                    return self->End(found.status());
                  }
                  self->retry_timer_ =
                      self->client_->strand()->RunAfter(self->backoff_.Next(), [self] {
                        self->retry_timer_ = 0;
                        if (!self->cancelled_) self->Look();
                      });
                });
}

void EtcdWatcher::Found(int64_t revision) {
  if (next_ == 0) next_ = revision + 1;
  if (next_ > revision) {
    greeted_ = true;
    on_batch_(WatchBatch{.revision = next_ - 1});
    if (cancelled_) return;
  }
  Open();
}

void EtcdWatcher::Open() {
  client_->WithToken([self = shared_from_this()](absl::Status ready) {
    if (self->cancelled_) return;
    if (!ready.ok()) return self->Lost(ready);
    const int64_t number = ++self->stream_number_;
    self->endpoint_ = self->client_->current();
    self->events_.clear();
    rpc::SessionCallbacks<Response> callbacks;
    callbacks.on_message = [self, number](const Response& response) {
      if (self->cancelled_ || number != self->stream_number_) return;
      self->OnMessage(response);
    };
    callbacks.on_closed = [self, number](const absl::Status& why) {
      if (self->cancelled_ || number != self->stream_number_) return;
      self->Lost(why);
    };
    self->stream_ =
        rpc::OpenSession(self->client_->watch_stub(), &WatchCalls::Watch, self->client_->strand(),
                         std::move(callbacks), self->client_->StreamOptions());
    etcdserverpb::WatchRequest request;
    etcdserverpb::WatchCreateRequest* create = request.mutable_create_request();
    create->set_key(self->request_.key);
    create->set_range_end(self->request_.end);
    create->set_start_revision(self->next_);
    create->set_progress_notify(true);
    create->set_fragment(true);
    self->stream_->Send(std::move(request)).IgnoreError();
  });
}

void EtcdWatcher::OnMessage(const Response& response) {
  const absl::Status same = client_->CheckCluster(response.header());
  if (!same.ok()) return End(same);
  if (response.compact_revision() != 0) {
    return End(CompactedError(next_, response.compact_revision()));
  }
  if (response.canceled()) return OnCancelled(response);
  if (response.created()) {
    backoff_.Reset();
    return AskProgress(greeted_ ? client_->options().progress_interval : kFirstProgress);
  }
  if (response.events_size() > 0 || response.fragment() || !events_.empty()) {
    return TakeEvents(response);
  }
  // Nothing has happened up to here, but for what was told.
  const int64_t revision = response.header().revision();
  if (revision >= next_ || !greeted_) Tell(0, std::max(revision, next_ - 1));
}

void EtcdWatcher::TakeEvents(const Response& response) {
  for (const mvccpb::Event& event : response.events()) {
    if (event.kv().mod_revision() >= next_) events_.push_back(FromEtcd(event));
  }
  if (events_.empty()) return;
  // Of a response that goes on, the newest revision may go on too.
  size_t end = events_.size();
  if (response.fragment()) {
    const int64_t open = events_.back().kv.mod_revision;
    while (end > 0 && events_[end - 1].kv.mod_revision == open) --end;
  }
  if (end > 0) Tell(end, events_[end - 1].kv.mod_revision);
}

void EtcdWatcher::Tell(size_t end, int64_t revision) {
  WatchBatch batch;
  batch.revision = revision;
  const auto middle = events_.begin() + static_cast<std::ptrdiff_t>(end);
  batch.events.assign(std::make_move_iterator(events_.begin()), std::make_move_iterator(middle));
  events_.erase(events_.begin(), middle);
  greeted_ = true;
  next_ = revision + 1;
  on_batch_(std::move(batch));
}

void EtcdWatcher::AskProgress(absl::Duration next) {
  if (progress_timer_ != 0) client_->strand()->Cancel(progress_timer_);
  progress_timer_ = client_->strand()->RunAfter(next, [self = shared_from_this(),
                                                       number = stream_number_] {
    if (self->cancelled_ || number != self->stream_number_) return;
    self->progress_timer_ = 0;
    etcdserverpb::WatchRequest request;
    request.mutable_progress_request();
    self->stream_->Send(std::move(request)).IgnoreError();
    self->AskProgress(self->greeted_ ? self->client_->options().progress_interval : kFirstProgress);
  });
}

void EtcdWatcher::OnCancelled(const Response& response) {
  const std::string& why = response.cancel_reason();
  if (absl::StrContains(why, "permission denied")) return End(absl::PermissionDeniedError(why));
  if (absl::StrContains(why, "auth token") || absl::StrContains(why, "auth store is old") ||
      absl::StrContains(why, "user name is empty")) {
    return Lost(absl::UnauthenticatedError(why));
  }
  Lost(absl::UnavailableError(why));
}

void EtcdWatcher::Lost(const absl::Status& why) {
  CloseStream();
  switch (ClassifyEtcdError(why)) {
    case EtcdOutcome::kAnswered:
      return End(TranslateEtcdError(why));
    case EtcdOutcome::kUnauthenticated:
      if (client_->options().user.empty()) return End(why);
      client_->DropToken();
      break;
    case EtcdOutcome::kNotExecuted:
    case EtcdOutcome::kUnknown:
      client_->Suspect(endpoint_);
  }
  retry_timer_ = client_->strand()->RunAfter(backoff_.Next(), [self = shared_from_this()] {
    self->retry_timer_ = 0;
    if (self->cancelled_) return;
    // Nothing was told yet and no revision is known.
    if (self->next_ == 0) return self->Look();
    self->Open();
  });
}

void EtcdWatcher::LeaveMember(size_t endpoint) {
  if (cancelled_ || stream_ == nullptr || endpoint_ != endpoint) return;
  Lost(absl::UnavailableError("its member failed"));
}

void EtcdWatcher::CloseStream() {
  ++stream_number_;
  if (stream_ != nullptr) std::exchange(stream_, nullptr)->Finish(absl::CancelledError("left"));
  for (Strand::TimerId* timer : {&retry_timer_, &progress_timer_}) {
    if (*timer != 0) client_->strand()->Cancel(std::exchange(*timer, 0));
  }
}

void EtcdWatcher::End(const absl::Status& why) {
  if (cancelled_.exchange(true)) return;
  CloseStream();
  on_batch_(why);
}

}  // namespace capstan::store
