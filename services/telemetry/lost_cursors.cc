#include "services/telemetry/lost_cursors.h"

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/notification.h"
#include "services/telemetry/core/subscription_book.h"

namespace capstan::telemetry {
namespace {

absl::StatusOr<StreamExtent> FindExtent(Strand* strand, Streams* streams,
                                        const std::string& stream) {
  absl::Notification done;
  absl::StatusOr<StreamExtent> found = absl::UnknownError("not answered");
  strand->Post([&] {
    streams->FindExtent(stream, [&](const absl::StatusOr<StreamExtent>& extent) {
      found = extent;
      done.Notify();
    });
  });
  done.WaitForNotification();
  return found;
}

absl::Status Store(SubscriptionStore* store, const core::SubscriptionRecord& record) {
  absl::Notification done;
  absl::Status stored;
  store->Put(record, [&](const absl::Status& put) {
    stored = put;
    done.Notify();
  });
  done.WaitForNotification();
  return stored;
}

}  // namespace

void MarkLostCursors(Strand* strand, Streams* streams, SubscriptionStore* store,
                     const log::Logger* logger, std::vector<core::SubscriptionRecord>* records) {
  for (core::SubscriptionRecord& record : *records) {
    if (record.acknowledged_offset() == 0) continue;
    const auto extent = FindExtent(strand, streams, record.stream());
    if (!extent.ok()) continue;
    const auto marked = MarkIfBeyondEnd(record, *extent);
    if (!marked.has_value()) continue;
    logger->Error("a stream ends before a cursor: its files are gone or of an older copy",
                  {{"subscription", record.name()},
                   {"stream", record.stream()},
                   {"cursor", record.acknowledged_offset()},
                   {"last_offset", extent->next - 1}});
    record = *marked;
    // As far as memory goes it holds, and the next write of the record stores it. A disk that takes
    // none lets no Stream grow either.
    const absl::Status stored = Store(store, record);
    if (!stored.ok()) logger->Error("a lost cursor is not on disk", {{"error", stored}});
  }
}

}  // namespace capstan::telemetry
