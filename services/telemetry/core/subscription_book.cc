#include "services/telemetry/core/subscription_book.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "libs/time/proto_time.h"
#include "services/telemetry/core/subscription_rules.h"

namespace capstan::telemetry {
namespace {

using core::SubscriptionRecord;

absl::Status NotThere(const SubscriptionRecord& record, int64_t offset, int64_t last) {
  return status::Error(absl::StatusCode::kOutOfRange, "OFFSET_NOT_THERE",
                       absl::StrCat("offset ", offset, " is not in ", record.stream(),
                                    " yet: its last record is ", last),
                       {{"offset", absl::StrCat(offset)}, {"last_offset", absl::StrCat(last)}});
}

// Whoever reads by now is replaced. Only a damaged record has none left.
absl::Status BeginGeneration(SubscriptionRecord* record) {
  if (record->reader_generation() == std::numeric_limits<int64_t>::max()) {
    return status::Error(absl::StatusCode::kFailedPrecondition, "READER_GENERATIONS_USED_UP",
                         absl::StrCat(record->name(), " has had ", record->reader_generation(),
                                      " readers and can have no other; delete it, and create one "
                                      "in its place"));
  }
  record->set_reader_generation(record->reader_generation() + 1);
  return absl::OkStatus();
}

bool IsBeyondEnd(const SubscriptionRecord& record, const StreamExtent& extent) {
  return record.beyond_end() || record.acknowledged_offset() >= extent.next;
}

// The cursor of a reader who is to get everything that is kept, or only what comes.
int64_t CursorAt(v1::CursorPosition position, const StreamExtent& extent) {
  return (position == v1::CURSOR_POSITION_NEWEST ? extent.next : extent.first) - 1;
}

}  // namespace

absl::Status CheckCursor(const SubscriptionRecord& record, const StreamExtent& extent) {
  const int64_t next = record.acknowledged_offset() + 1;
  const std::string id = record.name().substr(record.name().rfind('/') + 1);
  if (IsBeyondEnd(record, extent)) {
    return status::Error(
        absl::StatusCode::kOutOfRange, "CURSOR_BEYOND_END",
        absl::StrCat("the cursor of ", record.name(), " is at ", record.acknowledged_offset(),
                     ", but ", record.stream(),
                     " ended before it: its files are gone or are of an older copy, and what it "
                     "holds now, ",
                     extent.first, " to ", extent.next - 1, ", was never read; `capstan ",
                     "subscription seek ", id, " --oldest` reads it"),
        {{"subscription", record.name()},
         {"next_offset", absl::StrCat(next)},
         {"first_offset", absl::StrCat(extent.first)},
         {"last_offset", absl::StrCat(extent.next - 1)}});
  }
  if (next < extent.first) {
    return status::Error(absl::StatusCode::kOutOfRange, "CURSOR_EXPIRED",
                         absl::StrCat("records ", next, " to ", extent.first - 1, " of ",
                                      record.stream(), " were dropped by retention before ",
                                      record.name(), " acknowledged them; what is kept begins at ",
                                      extent.first, ": `capstan subscription seek ", id, " --to ",
                                      extent.first, "` goes on from there"),
                         {{"subscription", record.name()},
                          {"next_offset", absl::StrCat(next)},
                          {"first_offset", absl::StrCat(extent.first)},
                          {"lost_records", absl::StrCat(extent.first - next)}});
  }
  return absl::OkStatus();
}

absl::optional<SubscriptionRecord> MarkIfBeyondEnd(const SubscriptionRecord& record,
                                                   const StreamExtent& extent) {
  if (record.beyond_end() || !IsBeyondEnd(record, extent)) return absl::nullopt;
  SubscriptionRecord marked = record;
  marked.set_beyond_end(true);
  return marked;
}

int64_t LagOf(const SubscriptionRecord& record, const StreamExtent& extent) {
  if (record.beyond_end()) return extent.next - extent.first;
  return std::max<int64_t>(0, extent.next - 1 - record.acknowledged_offset());
}

v1::Subscription ToSubscription(const SubscriptionRecord& record, const StreamExtent& extent,
                                bool reading) {
  v1::Subscription shown;
  shown.set_name(record.name());
  shown.set_stream(record.stream());
  *shown.mutable_create_time() = record.create_time();
  shown.set_acknowledged_offset(record.acknowledged_offset());
  shown.set_reader_generation(record.reader_generation());
  shown.set_reading(reading);
  shown.set_first_kept_offset(extent.first);
  shown.set_last_offset(extent.next - 1);
  shown.set_beyond_end(record.beyond_end());
  shown.set_lag_records(LagOf(record, extent));
  shown.set_lost_records(
      shown.beyond_end() ? 0
                         : std::max<int64_t>(0, extent.first - 1 - record.acknowledged_offset()));
  return shown;
}

void SubscriptionBook::Put(SubscriptionRecord record) {
  std::string name = record.name();
  records_.insert_or_assign(std::move(name), std::move(record));
}

const SubscriptionRecord* SubscriptionBook::Find(const std::string& name) const {
  const auto it = records_.find(name);
  return it == records_.end() ? nullptr : &it->second;
}

std::vector<const SubscriptionRecord*> SubscriptionBook::List(absl::string_view parent) const {
  std::vector<const SubscriptionRecord*> found;
  const std::string prefix = parent.empty() ? "" : SubscriptionName(parent, "");
  for (auto it = records_.lower_bound(prefix);
       it != records_.end() && absl::StartsWith(it->first, prefix); ++it) {
    found.push_back(&it->second);
  }
  return found;
}

absl::StatusOr<SubscriptionRecord> SubscriptionBook::Create(
    const v1::CreateSubscriptionRequest& request, size_t in_hand, const StreamExtent& extent,
    absl::Time now) const {
  const std::string name = SubscriptionName(request.parent(), request.subscription_id());
  if (const SubscriptionRecord* there = Find(name)) {
    if (!request.request_id().empty() && there->request_id() == request.request_id() &&
        there->stream() == request.stream()) {
      return *there;
    }
    return status::Error(absl::StatusCode::kAlreadyExists, "SUBSCRIPTION_EXISTS",
                         absl::StrCat(name, " exists already, and reads ", there->stream()),
                         {{"name", name}, {"stream", there->stream()}});
  }
  const size_t of_project = List(request.parent()).size();
  if (of_project + in_hand >= limits_.of_one_project ||
      records_.size() + in_hand >= limits_.subscriptions) {
    return status::Error(
        absl::StatusCode::kResourceExhausted, "TOO_MANY_SUBSCRIPTIONS",
        absl::StrCat(request.parent(), " has ", of_project, " subscriptions, at most ",
                     limits_.of_one_project, ", and all projects ", records_.size(), ", at most ",
                     limits_.subscriptions, ": delete some"));
  }
  SubscriptionRecord record;
  record.set_name(name);
  record.set_stream(request.stream());
  *record.mutable_create_time() = ToProto(now);
  record.set_acknowledged_offset(CursorAt(request.position(), extent));
  record.set_request_id(request.request_id());
  return record;
}

absl::StatusOr<SubscriptionRecord> SubscriptionBook::Admit(const std::string& name,
                                                           const StreamExtent& extent) const {
  const SubscriptionRecord* there = Find(name);
  if (there == nullptr) return status::NotFound(name);
  const absl::Status readable = CheckCursor(*there, extent);
  if (!readable.ok()) return readable;
  SubscriptionRecord record = *there;
  CAPSTAN_RETURN_IF_ERROR(BeginGeneration(&record));
  return record;
}

absl::StatusOr<SubscriptionRecord> SubscriptionBook::Acknowledge(
    const v1::AcknowledgeRequest& request, const StreamExtent& extent) const {
  const SubscriptionRecord* there = Find(request.name());
  if (there == nullptr) return status::NotFound(request.name());
  if (request.reader_generation() != 0 &&
      request.reader_generation() != there->reader_generation()) {
    return status::Error(absl::StatusCode::kFailedPrecondition, "READER_REPLACED",
                         absl::StrCat("generation ", request.reader_generation(), " of ",
                                      request.name(), " was replaced by generation ",
                                      there->reader_generation(), ": nothing was acknowledged"),
                         {{"reader_generation", absl::StrCat(there->reader_generation())}});
  }
  if (there->beyond_end()) return CheckCursor(*there, extent);
  if (request.offset() >= extent.next) {
    return NotThere(*there, request.offset(), extent.next - 1);
  }
  SubscriptionRecord record = *there;
  record.set_acknowledged_offset(std::max(record.acknowledged_offset(), request.offset()));
  return record;
}

absl::StatusOr<SubscriptionRecord> SubscriptionBook::Seek(
    const v1::SeekSubscriptionRequest& request, const StreamExtent& extent) const {
  const SubscriptionRecord* there = Find(request.name());
  if (there == nullptr) return status::NotFound(request.name());
  int64_t next = request.next_offset();
  if (next == 0) next = CursorAt(request.position(), extent) + 1;
  if (next < extent.first) {
    return status::Error(
        absl::StatusCode::kOutOfRange, "OFFSET_NOT_KEPT",
        absl::StrCat("offset ", next, " of ", there->stream(),
                     " was dropped by retention; what is kept begins at ", extent.first),
        {{"first_offset", absl::StrCat(extent.first)}});
  }
  if (next > extent.next) return NotThere(*there, next, extent.next - 1);
  SubscriptionRecord record = *there;
  record.set_acknowledged_offset(next - 1);
  record.clear_beyond_end();
  CAPSTAN_RETURN_IF_ERROR(BeginGeneration(&record));
  return record;
}

}  // namespace capstan::telemetry
