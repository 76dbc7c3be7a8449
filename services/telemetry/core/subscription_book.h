// Subscriptions: what each command makes of one. Pure.
#ifndef CAPSTAN_SERVICES_TELEMETRY_CORE_SUBSCRIPTION_BOOK_H_
#define CAPSTAN_SERVICES_TELEMETRY_CORE_SUBSCRIPTION_BOOK_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "proto/capstan/telemetry/v1/subscription.pb.h"
#include "services/telemetry/core/records.pb.h"

namespace capstan::telemetry {

// Which offsets of a Stream are kept: from `first` up to but not including `next`.
struct StreamExtent {
  int64_t first = 1;
  int64_t next = 1;

  friend bool operator==(const StreamExtent&, const StreamExtent&) = default;
};

// Whether a stored cursor is one that can be counted on from; all others are damage.
inline bool IsCursor(int64_t acknowledged_offset) {
  return acknowledged_offset >= 0 && acknowledged_offset <= int64_t{1} << 60;
}

// OUT_OF_RANGE with CURSOR_EXPIRED if records behind the cursor have been dropped, or with
// CURSOR_BEYOND_END if the Stream ends before it, or did so once; else OK.
absl::Status CheckCursor(const core::SubscriptionRecord& record, const StreamExtent& extent);

// What is to be kept of a subscription whose Stream ends before its cursor: it is marked, so that
// no reader is let in before a seek though the Stream grow past the cursor. Nothing if that is not
// so, or known. For the start, before anything is appended.
absl::optional<core::SubscriptionRecord> MarkIfBeyondEnd(const core::SubscriptionRecord& record,
                                                         const StreamExtent& extent);

// Records that its reader is yet to get, those that are lost to it included.
int64_t LagOf(const core::SubscriptionRecord& record, const StreamExtent& extent);

// What callers are shown.
v1::Subscription ToSubscription(const core::SubscriptionRecord& record, const StreamExtent& extent,
                                bool reading);

// The subscriptions as stored. A command is decided against them and gives the record to be stored;
// it takes effect by Put, once that is on disk. Commands about one name follow each other.
class SubscriptionBook {
 public:
  struct Limits {
    size_t of_one_project = 100;
    size_t subscriptions = 1000;
  };

  explicit SubscriptionBook(Limits limits) : limits_(limits) {}

  // Adds one, or replaces the one of the same name.
  void Put(core::SubscriptionRecord record);
  void Remove(const std::string& name) { records_.erase(name); }

  // Null if there is none; valid until the next Put or Remove.
  const core::SubscriptionRecord* Find(const std::string& name) const;
  // By name; of all projects if `parent` is empty.
  std::vector<const core::SubscriptionRecord*> List(absl::string_view parent) const;
  size_t size() const { return records_.size(); }

  // A new one; the one that is there if the same request made it. `in_hand` others are being made.
  // SUBSCRIPTION_EXISTS, TOO_MANY_SUBSCRIPTIONS.
  absl::StatusOr<core::SubscriptionRecord> Create(const v1::CreateSubscriptionRequest& request,
                                                  size_t in_hand, const StreamExtent& extent,
                                                  absl::Time now) const;
  // For a new reader, who gets the generation of the record. NOT_FOUND, or as CheckCursor.
  absl::StatusOr<core::SubscriptionRecord> Admit(const std::string& name,
                                                 const StreamExtent& extent) const;
  // The cursor never goes back. NOT_FOUND, READER_REPLACED, OFFSET_NOT_THERE, CURSOR_BEYOND_END.
  absl::StatusOr<core::SubscriptionRecord> Acknowledge(const v1::AcknowledgeRequest& request,
                                                       const StreamExtent& extent) const;
  // NOT_FOUND; OUT_OF_RANGE with OFFSET_NOT_KEPT or OFFSET_NOT_THERE.
  absl::StatusOr<core::SubscriptionRecord> Seek(const v1::SeekSubscriptionRequest& request,
                                                const StreamExtent& extent) const;

 private:
  const Limits limits_;
  std::map<std::string, core::SubscriptionRecord> records_;
};

}  // namespace capstan::telemetry

#endif  // CAPSTAN_SERVICES_TELEMETRY_CORE_SUBSCRIPTION_BOOK_H_
