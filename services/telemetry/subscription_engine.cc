#include "services/telemetry/subscription_engine.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/status/error.h"
#include "services/telemetry/core/subscription_rules.h"

namespace capstan::telemetry {
namespace {

using core::SubscriptionRecord;

constexpr char kCreateAct[] = "/capstan.telemetry.v1.SubscriptionService/CreateSubscription";
constexpr char kDeleteAct[] = "/capstan.telemetry.v1.SubscriptionService/DeleteSubscription";
constexpr char kSeekAct[] = "/capstan.telemetry.v1.SubscriptionService/SeekSubscription";
// Subscriptions with commands under way, those that do not exist included.
constexpr size_t kMaxLanes = 2000;

absl::Status Stopping() { return absl::UnavailableError("telemetry is stopping"); }

absl::Status Replaced(const std::string& name) {
  return status::Error(absl::StatusCode::kFailedPrecondition, "READER_REPLACED",
                       absl::StrCat("another reader of ", name, " has taken over"),
                       {{"subscription", name}});
}

}  // namespace

template <typename F>
auto SubscriptionEngine::WhileAlive(F f) {
  return [alive = std::weak_ptr<char>(alive_), f = std::move(f)](auto&&... args) mutable {
    if (alive.lock()) f(std::forward<decltype(args)>(args)...);
  };
}

SubscriptionEngine::SubscriptionEngine(const Options& options, const Deps& deps,
                                       std::vector<SubscriptionRecord> records)
    : options_(options),
      deps_(deps),
      book_(options.limits),
      subscriptions_(
          deps.metrics->AddGauge("subscriptions", "Subscriptions of Streams that there are.")),
      open_readers_(deps.metrics->AddGauge("open_subscription_readers",
                                           "Readers of subscriptions connected now.")),
      lag_(deps.metrics->AddGauge("subscription_lag_records",
                                  "Records behind the cursors of all subscriptions.")),
      largest_lag_(deps.metrics->AddGauge(
          "largest_subscription_lag_records",
          "Records behind the cursor of the subscription that is farthest behind.")),
      expired_(deps.metrics->AddGauge(
          "expired_subscriptions",
          "Subscriptions whose next record was dropped by retention, or is not there.")),
      acknowledgements_(deps.metrics->AddCounter("subscription_acknowledgements_total",
                                                 "Acknowledgements that were stored.")),
      takeovers_(deps.metrics->AddCounter("subscription_takeovers_total",
                                          "Readers that a newer one has replaced.")) {
  for (SubscriptionRecord& record : records) book_.Put(std::move(record));
  KeepNewest();
  Refresh();
}

SubscriptionEngine::~SubscriptionEngine() {
  if (refresh_timer_ != 0) deps_.strand->Cancel(refresh_timer_);
}

absl::Status SubscriptionEngine::CheckLane(const std::string& name) const {
  if (stopped_) return Stopping();
  const auto it = lanes_.find(name);
  if (it == lanes_.end() ? lanes_.size() < kMaxLanes : it->second.size() <= options_.max_waiting) {
    return absl::OkStatus();
  }
  return status::WithRetryDelay(
      status::Error(absl::StatusCode::kResourceExhausted, "SUBSCRIPTION_BUSY",
                    absl::StrCat("too many requests wait for ", name), {{"subscription", name}}),
      absl::Milliseconds(200));
}

void SubscriptionEngine::Enter(const std::string& name, absl::AnyInvocable<void()> act) {
  Lane& lane = lanes_[name];
  // What is under way has left an empty place at the front.
  if (!lane.empty()) return lane.push_back(std::move(act));
  lane.emplace_back();
  act();
}

void SubscriptionEngine::Leave(const std::string& name) {
  const auto it = lanes_.find(name);
  it->second.pop_front();
  if (it->second.empty()) {
    lanes_.erase(it);
    return;
  }
  absl::AnyInvocable<void()> next = std::exchange(it->second.front(), nullptr);
  next();
}

void SubscriptionEngine::WithExtent(const std::string& stream,
                                    absl::AnyInvocable<void(absl::StatusOr<StreamExtent>)> next) {
  deps_.streams->FindExtent(stream,
                            WhileAlive([this, stream, next = std::move(next)](
                                           const absl::StatusOr<StreamExtent>& extent) mutable {
                              const auto it = extents_.find(stream);
                              if (extent.ok() && it != extents_.end()) it->second = *extent;
                              next(extent);
                            }));
}

void SubscriptionEngine::Audited(const char* act, const std::string& name,
                                 const std::string& principal, const std::string& message,
                                 absl::AnyInvocable<void(absl::Status)> next) {
  audit::AuditEntry entry;
  entry.principal = principal;
  entry.act = act;
  entry.resource = name;
  entry.message = message;
  deps_.audit_strand->Post([strand = deps_.strand, audit = deps_.audit, entry = std::move(entry),
                            next = WhileAlive(std::move(next))]() mutable {
    strand->Post(
        [next = std::move(next), recorded = audit->Record(entry)]() mutable { next(recorded); });
  });
}

void SubscriptionEngine::Commit(SubscriptionRecord record,
                                absl::AnyInvocable<void(absl::Status)> next) {
  auto done = WhileAlive([this, record, next = std::move(next)](const absl::Status& put) mutable {
    if (put.ok()) book_.Put(std::move(record));
    next(put);
  });
  deps_.store->Put(std::move(record), [strand = deps_.strand,
                                       done = std::move(done)](const absl::Status& put) mutable {
    strand->Post([done = std::move(done), put]() mutable { done(put); });
  });
}

v1::Subscription SubscriptionEngine::Show(const SubscriptionRecord& record,
                                          const StreamExtent& extent) const {
  return ToSubscription(record, extent, readers_.count(record.name()) > 0);
}

void SubscriptionEngine::Create(const v1::CreateSubscriptionRequest& request,
                                const std::string& principal, Done<v1::Subscription> done) {
  const std::string name = SubscriptionName(request.parent(), request.subscription_id());
  const absl::Status taken = CheckLane(name);
  if (!taken.ok()) return done(taken);
  Enter(name, [this, name, request, principal, done = std::move(done)]() mutable {
    // Before its extent is read: what the cursor is made of must not begin anew.
    in_the_making_[name] = request.stream();
    KeepNewest();
    auto finish = [this, name,
                   done = std::move(done)](absl::StatusOr<v1::Subscription> made) mutable {
      in_the_making_.erase(name);
      KeepNewest();
      done(std::move(made));
      Leave(name);
    };
    WithExtent(request.stream(), [this, name, request, principal, finish = std::move(finish)](
                                     absl::StatusOr<StreamExtent> extent) mutable {
      if (!extent.ok()) return finish(extent.status());
      absl::StatusOr<SubscriptionRecord> record = book_.Create(
          request, in_the_making_.size() - 1, *extent, deps_.strand->clock().Read().wall);
      if (!record.ok()) return finish(record.status());
      if (book_.Find(name) != nullptr) return finish(Show(*record, *extent));
      Audited(
          kCreateAct, name, principal,
          absl::StrCat("reads ", record->stream(), " after offset ", record->acknowledged_offset()),
          [this, extent = *extent, record = *record,
           finish = std::move(finish)](const absl::Status& recorded) mutable {
            if (!recorded.ok()) return finish(recorded);
            Commit(record, [this, extent, record,
                            finish = std::move(finish)](const absl::Status& put) mutable {
              if (!put.ok()) return finish(put);
              finish(Show(record, extent));
            });
          });
    });
  });
}

void SubscriptionEngine::Get(const std::string& name, Done<v1::Subscription> done) {
  if (stopped_) return done(Stopping());
  const SubscriptionRecord* found = book_.Find(name);
  if (found == nullptr) return done(status::NotFound(name));
  WithExtent(found->stream(),
             [this, name, done = std::move(done)](absl::StatusOr<StreamExtent> extent) mutable {
               if (!extent.ok()) return done(extent.status());
               const SubscriptionRecord* record = book_.Find(name);
               if (record == nullptr) return done(status::NotFound(name));
               done(Show(*record, *extent));
             });
}

std::vector<v1::Subscription> SubscriptionEngine::List(const std::string& parent) {
  std::vector<v1::Subscription> all;
  for (const SubscriptionRecord* record : book_.List(parent)) {
    all.push_back(Show(*record, extents_[record->stream()]));
  }
  return all;
}

void SubscriptionEngine::Delete(const std::string& name, const std::string& principal,
                                absl::AnyInvocable<void(absl::Status)> done) {
  const absl::Status taken = CheckLane(name);
  if (!taken.ok()) return done(taken);
  Enter(name, [this, name, principal, done = std::move(done)]() mutable {
    auto finish = [this, name, done = std::move(done)](const absl::Status& outcome) mutable {
      done(outcome);
      Leave(name);
    };
    const SubscriptionRecord* record = book_.Find(name);
    if (record == nullptr) return finish(status::NotFound(name));
    Audited(
        kDeleteAct, name, principal,
        absl::StrCat("read ", record->stream(), " up to offset ", record->acknowledged_offset()),
        [this, name, finish = std::move(finish)](const absl::Status& recorded) mutable {
          if (!recorded.ok()) return finish(recorded);
          auto removed = WhileAlive([this, name, finish = std::move(finish)](
                                        const absl::Status& outcome) mutable {
            if (outcome.ok()) {
              book_.Remove(name);
              KeepNewest();
              EndReader(name, status::Error(
                                  absl::StatusCode::kFailedPrecondition, "SUBSCRIPTION_DELETED",
                                  absl::StrCat(name, " was deleted"), {{"subscription", name}}));
            }
            finish(outcome);
          });
          deps_.store->Remove(name, [strand = deps_.strand, removed = std::move(removed)](
                                        const absl::Status& outcome) mutable {
            strand->Post([removed = std::move(removed), outcome]() mutable { removed(outcome); });
          });
        });
  });
}

void SubscriptionEngine::Seek(const v1::SeekSubscriptionRequest& request,
                              const std::string& principal, Done<v1::Subscription> done) {
  const std::string& name = request.name();
  const absl::Status taken = CheckLane(name);
  if (!taken.ok()) return done(taken);
  Enter(name, [this, name, request, principal, done = std::move(done)]() mutable {
    auto finish = [this, name,
                   done = std::move(done)](absl::StatusOr<v1::Subscription> moved) mutable {
      done(std::move(moved));
      Leave(name);
    };
    const SubscriptionRecord* found = book_.Find(name);
    if (found == nullptr) return finish(status::NotFound(name));
    WithExtent(found->stream(), [this, name, request, principal, finish = std::move(finish)](
                                    absl::StatusOr<StreamExtent> extent) mutable {
      if (!extent.ok()) return finish(extent.status());
      absl::StatusOr<SubscriptionRecord> record = book_.Seek(request, *extent);
      if (!record.ok()) return finish(record.status());
      Audited(kSeekAct, name, principal,
              absl::StrCat("cursor from ", book_.Find(name)->acknowledged_offset(), " to ",
                           record->acknowledged_offset(), " in ", record->stream()),
              [this, name, extent = *extent, record = *record,
               finish = std::move(finish)](const absl::Status& recorded) mutable {
                if (!recorded.ok()) return finish(recorded);
                Commit(record, [this, name, extent, record,
                                finish = std::move(finish)](const absl::Status& put) mutable {
                  if (!put.ok()) return finish(put);
                  EndReader(
                      name,
                      status::Error(absl::StatusCode::kFailedPrecondition, "CURSOR_MOVED",
                                    absl::StrCat("the cursor of ", name, " was moved: read again"),
                                    {{"subscription", name}}));
                  finish(Show(record, extent));
                });
              });
    });
  });
}

void SubscriptionEngine::Subscribe(const v1::SubscribeRequest& request,
                                   std::unique_ptr<SubscriptionSink> sink) {
  const std::string& name = request.name();
  const absl::Status taken = CheckLane(name);
  if (!taken.ok()) return sink->Finish(taken);
  Enter(name, [this, name, follow = request.follow(), sink = std::move(sink)]() mutable {
    const SubscriptionRecord* found = book_.Find(name);
    if (found == nullptr) {
      sink->Finish(status::NotFound(name));
      return Leave(name);
    }
    WithExtent(found->stream(), [this, name, follow, sink = std::move(sink)](
                                    absl::StatusOr<StreamExtent> extent) mutable {
      absl::StatusOr<SubscriptionRecord> record =
          extent.ok() ? book_.Admit(name, *extent)
                      : absl::StatusOr<SubscriptionRecord>(extent.status());
      if (!record.ok()) {
        sink->Finish(record.status());
        return Leave(name);
      }
      Commit(*record, [this, record = *record, follow,
                       sink = std::move(sink)](const absl::Status& put) mutable {
        if (put.ok()) {
          OpenReader(record, follow, std::move(sink));
        } else {
          sink->Finish(put);
        }
        Leave(record.name());
      });
    });
  });
}

void SubscriptionEngine::OpenReader(const SubscriptionRecord& record, bool follow,
                                    std::unique_ptr<SubscriptionSink> sink) {
  if (readers_.count(record.name()) > 0) {
    takeovers_.Increment();
    EndReader(record.name(), Replaced(record.name()));
  }
  if (stopped_) return sink->Finish(Stopping());
  const auto reader = std::make_shared<SubscriptionReader>(record, std::move(sink));
  // Its generation, before there is anything to acknowledge.
  if (!reader->TellGeneration().ok()) return;
  readers_[record.name()] = reader;
  open_readers_.Set(static_cast<double>(readers_.size()));
  v1::ReadRecordsRequest read;
  read.set_stream(record.stream());
  read.set_start_offset(reader->next());
  read.set_follow(follow);
  deps_.streams->OpenReader(
      std::move(read), MakeReaderSink(reader, [this, alive = std::weak_ptr<char>(alive_)](
                                                  const std::shared_ptr<SubscriptionReader>& gone) {
        if (alive.lock()) OnReaderGone(gone);
      }));
}

void SubscriptionEngine::Acknowledge(const v1::AcknowledgeRequest& request,
                                     Done<v1::AcknowledgeResponse> done) {
  const std::string& name = request.name();
  const absl::Status taken = CheckLane(name);
  if (!taken.ok()) return done(taken);
  Enter(name, [this, name, request, done = std::move(done)]() mutable {
    auto decide = [this, name, request,
                   done = std::move(done)](const absl::StatusOr<StreamExtent>& extent) mutable {
      auto finish = [this, name, done = std::move(done)](
                        absl::StatusOr<v1::AcknowledgeResponse> moved) mutable {
        done(std::move(moved));
        Leave(name);
      };
      absl::StatusOr<SubscriptionRecord> record =
          extent.ok() ? book_.Acknowledge(request, *extent)
                      : absl::StatusOr<SubscriptionRecord>(extent.status());
      if (!record.ok()) return finish(record.status());
      Commit(*record, [this, offset = record->acknowledged_offset(),
                       finish = std::move(finish)](const absl::Status& put) mutable {
        if (!put.ok()) return finish(put);
        acknowledgements_.Increment();
        v1::AcknowledgeResponse response;
        response.set_acknowledged_offset(offset);
        finish(std::move(response));
      });
    };
    const SubscriptionRecord* found = book_.Find(name);
    if (found == nullptr) return decide(status::NotFound(name));
    const auto reader = readers_.find(name);
    // What was sent is there: the usual case looks nothing up.
    if (reader != readers_.end() && request.offset() < reader->second->next()) {
      return decide(StreamExtent{1, reader->second->next()});
    }
    WithExtent(found->stream(), std::move(decide));
  });
}

void SubscriptionEngine::EndReader(const std::string& name, const absl::Status& why) {
  const auto it = readers_.find(name);
  if (it == readers_.end()) return;
  const std::shared_ptr<SubscriptionReader> reader = it->second;
  reader->End(why);
  OnReaderGone(reader);
}

void SubscriptionEngine::OnReaderGone(const std::shared_ptr<SubscriptionReader>& reader) {
  reader->End(absl::CancelledError("the reader is gone"));
  const auto it = readers_.find(reader->record().name());
  if (it == readers_.end() || it->second != reader) return;
  readers_.erase(it);
  open_readers_.Set(static_cast<double>(readers_.size()));
}

void SubscriptionEngine::KeepNewest() {
  std::set<std::string> streams;
  for (const SubscriptionRecord* record : book_.List("")) streams.insert(record->stream());
  for (const auto& [name, stream] : in_the_making_) streams.insert(stream);
  subscriptions_.Set(static_cast<double>(book_.size()));
  bool changed = streams.size() != extents_.size();
  for (const std::string& stream : streams) changed |= extents_.count(stream) == 0;
  if (!changed) return;
  std::map<std::string, StreamExtent> extents;
  for (const std::string& stream : streams) extents[stream] = extents_[stream];
  extents_ = std::move(extents);
  deps_.streams->KeepNewest(std::move(streams));
}

void SubscriptionEngine::Refresh() {
  std::vector<std::string> streams;
  for (const auto& [stream, extent] : extents_) streams.push_back(stream);
  RefreshFrom(std::move(streams), 0);
}

void SubscriptionEngine::RefreshFrom(std::vector<std::string> streams, size_t at) {
  if (at == streams.size()) {
    SetMetrics();
    refresh_timer_ = deps_.strand->RunAfter(options_.refresh_every, [this] { Refresh(); });
    return;
  }
  const std::string stream = streams[at];
  WithExtent(stream,
             [this, streams = std::move(streams), at](const absl::StatusOr<StreamExtent>&) mutable {
               // One that can't be read keeps what was known of it.
               RefreshFrom(std::move(streams), at + 1);
             });
}

void SubscriptionEngine::SetMetrics() {
  int64_t lag = 0;
  int64_t largest = 0;
  int64_t expired = 0;
  for (const SubscriptionRecord* record : book_.List("")) {
    const StreamExtent& extent = extents_[record->stream()];
    const int64_t behind = LagOf(*record, extent);
    lag += behind;
    largest = std::max(largest, behind);
    if (!CheckCursor(*record, extent).ok()) ++expired;
  }
  lag_.Set(static_cast<double>(lag));
  largest_lag_.Set(static_cast<double>(largest));
  expired_.Set(static_cast<double>(expired));
}

void SubscriptionEngine::Stop() {
  stopped_ = true;
  while (!readers_.empty()) {
    const std::string name = readers_.begin()->first;
    EndReader(name, Stopping());
  }
}

}  // namespace capstan::telemetry
