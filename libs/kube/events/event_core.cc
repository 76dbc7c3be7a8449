#include "libs/kube/events/event_core.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "libs/kube/client/server_error.h"

namespace capstan::kube {
namespace {

// The server's bounds.
constexpr size_t kMaxNote = 1024;
constexpr size_t kMaxName = 253;

meta_v1::MicroTime ToMicroTime(absl::Time time) {
  meta_v1::MicroTime proto;
  const int64_t seconds = absl::ToUnixSeconds(time);
  proto.set_seconds(seconds);
  proto.set_nanos(static_cast<int32_t>(absl::ToUnixMicros(time) - seconds * 1'000'000) * 1000);
  return proto;
}

std::string KeyOf(const EventRecord& record) {
  const auto reference = [](core_v1::ObjectReference object) {
    object.clear_resource_version();
    return object.SerializeAsString();
  };
  std::string key;
  for (const std::string& part :
       {std::string(record.type == EventType::kWarning ? "w" : "n"), record.reason, record.action,
        reference(record.regarding),
        record.related.has_value() ? reference(*record.related) : std::string()}) {
    absl::StrAppend(&key, part.size(), ":", part);
  }
  return key;
}

bool IsDnsSubdomain(absl::string_view name) {
  if (name.size() > kMaxName) return false;
  for (const absl::string_view label : absl::StrSplit(name, '.')) {
    const auto is_plain = [](char c) { return absl::ascii_islower(c) || absl::ascii_isdigit(c); };
    if (label.empty() || !is_plain(label.front()) || !is_plain(label.back())) return false;
    if (!std::all_of(label.begin(), label.end(), [&](char c) { return is_plain(c) || c == '-'; })) {
      return false;
    }
  }
  return true;
}

// At most `most` bytes, and no character in half.
std::string Cut(absl::string_view text, size_t most) {
  if (text.size() <= most) return std::string(text);
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xC0) == 0x80) --most;
  return std::string(text.substr(0, most));
}

// Nothing was decided: it may go well the next time.
bool MayPass(const absl::Status& failure) {
  const int code = HttpStatusOf(failure);
  return code == 0 || code >= 500 || code == 429 || code == 409;
}

}  // namespace

bool EventCore::Add(const EventRecord& record, Now now) {
  ++stats_.recorded;
  std::string key = KeyOf(record);
  auto found = by_key_.find(key);
  if (found != by_key_.end()) {
    const auto series = series_.find(found->second);
    Series& known = series->second;
    const bool rests = known.settled == known.count && !known.writing.has_value();
    if (rests && now.boot - known.last >= options_.series_end) {
      Forget(series);
      found = by_key_.end();
    }
  }
  if (found == by_key_.end()) {
    if (!MakeRoom()) {
      ++stats_.dropped;
      return false;
    }
    const uint64_t id = ++last_series_;
    Series& made = series_[id];
    made.key = key;
    made.event = MakeEvent(record, now);
    by_key_[std::move(key)] = id;
    made.count = 1;
    made.last = now.boot;
    made.last_wall = now.wall;
    Settle(id, &made);
    return true;
  }
  const uint64_t id = found->second;
  Series& known = series_[id];
  resting_.erase({known.last, id});
  due_.erase({known.next_write, id});
  ++known.count;
  known.last = now.boot;
  known.last_wall = now.wall;
  Settle(id, &known);
  return true;
}

std::vector<EventCall> EventCore::TakeDue(BootTime now) {
  std::vector<EventCall> calls;
  while (calls_ < options_.max_calls && !due_.empty() &&
         (flushing_ || due_.begin()->first <= now)) {
    const uint64_t id = due_.begin()->second;
    due_.erase(due_.begin());
    Series& series = series_[id];
    series.writing = series.count;
    ++calls_;
    calls.push_back(CallOf(id, &series));
  }
  return calls;
}

void EventCore::OnAnswer(uint64_t id, const absl::Status& status, BootTime now) {
  const auto found = series_.find(id);
  if (found == series_.end() || !found->second.writing.has_value()) return;
  Series& series = found->second;
  const int32_t writing = *std::exchange(series.writing, absl::nullopt);
  --calls_;
  series.next_write = now + options_.series_interval;
  // A create whose first answer was lost finds its own work.
  if (status.ok() || (!series.is_created && absl::IsAlreadyExists(status))) {
    series.is_created = true;
    series.tries = 0;
    stats_.written += writing - series.settled;
    series.settled = writing;
  } else if (series.is_created && absl::IsNotFound(status)) {
    // The server has forgotten it, so it is made anew, with its count.
    series.is_created = false;
    series.next_write = now;
  } else if (MayPass(status) && !flushing_ && ++series.tries < options_.max_tries) {
    series.next_write =
        now + options_.retry_interval +
        random_->Between(absl::ZeroDuration(), options_.retry_interval / 4 + absl::Nanoseconds(1));
  } else {
    GiveUp(&series, writing);
  }
  Settle(id, &series);
}

void EventCore::Flush() { flushing_ = true; }

void EventCore::Abandon() {
  for (auto& [id, series] : series_) {
    series.writing.reset();
    GiveUp(&series, series.count);
  }
  due_.clear();
  resting_.clear();
  series_.clear();
  by_key_.clear();
  calls_ = 0;
}

BootTime EventCore::NextWake() const {
  if (due_.empty() || calls_ >= options_.max_calls) return BootTime::InfiniteFuture();
  return flushing_ ? BootTime::InfinitePast() : due_.begin()->first;
}

events_v1::Event EventCore::MakeEvent(const EventRecord& record, Now now) {
  events_v1::Event event;
  event.mutable_metadata()->set_namespace_(
      record.regarding.namespace_().empty() ? "default" : record.regarding.namespace_());
  event.mutable_metadata()->set_name(NameOf(record, now.wall));
  *event.mutable_event_time() = ToMicroTime(now.wall);
  event.set_reporting_controller(options_.reporting_controller);
  event.set_reporting_instance(options_.reporting_instance);
  event.set_action(record.action);
  event.set_reason(record.reason);
  *event.mutable_regarding() = record.regarding;
  if (record.related.has_value()) *event.mutable_related() = *record.related;
  event.set_note(Cut(record.note, kMaxNote));
  event.set_type(record.type == EventType::kWarning ? "Warning" : "Normal");
  return event;
}

std::string EventCore::NameOf(const EventRecord& record, absl::Time now) {
  // Two of one moment have two names.
  last_stamp_ = std::max(last_stamp_ + 1, absl::ToUnixNanos(now));
  std::string name = absl::StrFormat("%s.%x", record.regarding.name(), last_stamp_);
  return IsDnsSubdomain(name) ? name : random_->Uuid4();
}

void EventCore::Forget(SeriesMap::iterator series) {
  resting_.erase({series->second.last, series->first});
  due_.erase({series->second.next_write, series->first});
  by_key_.erase(series->second.key);
  series_.erase(series);
}

bool EventCore::MakeRoom() {
  if (series_.size() < options_.max_series) return true;
  if (resting_.empty()) return false;
  Forget(series_.find(resting_.begin()->second));
  return true;
}

void EventCore::Settle(uint64_t id, Series* series) {
  if (series->writing.has_value()) return;
  if (series->settled < series->count) {
    due_.insert({series->next_write, id});
  } else {
    resting_.insert({series->last, id});
  }
}

void EventCore::GiveUp(Series* series, int32_t until) {
  series->tries = 0;
  stats_.failed += until - series->settled;
  series->settled = until;
}

EventCall EventCore::CallOf(uint64_t id, Series* series) const {
  EventCall call;
  call.series = id;
  call.is_patch = series->is_created;
  call.event = series->event;
  if (series->count > 1) {
    events_v1::EventSeries* const counted = call.event.mutable_series();
    counted->set_count(series->count);
    *counted->mutable_last_observed_time() = ToMicroTime(series->last_wall);
  }
  if (call.is_patch) {
    call.patch = absl::StrFormat(
        R"({"series":{"count":%d,"lastObservedTime":"%s"}})", series->count,
        absl::FormatTime("%Y-%m-%d%ET%H:%M:%E6SZ", series->last_wall, absl::UTCTimeZone()));
  }
  return call;
}

}  // namespace capstan::kube
