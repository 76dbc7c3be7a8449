#ifndef CAPSTAN_SERVICES_TELEMETRY_LOST_CURSORS_H_
#define CAPSTAN_SERVICES_TELEMETRY_LOST_CURSORS_H_

#include <vector>

#include "libs/log/log.h"
#include "libs/strand/strand.h"
#include "services/telemetry/core/records.pb.h"
#include "services/telemetry/ports/streams.h"
#include "services/telemetry/ports/subscription_store.h"

namespace capstan::telemetry {

// Marks, in `records` and on disk, the subscriptions whose Streams end before their cursors, since
// files were removed or are older than the cursors. For the start: once records are appended such a
// Stream grows past the cursor, and no one could tell any more. `streams` is used on `strand`.
// Blocks; not on the strand. A Stream that can't be read is left to its readers.
void MarkLostCursors(Strand* strand, Streams* streams, SubscriptionStore* store,
                     const log::Logger* logger, std::vector<core::SubscriptionRecord>* records);

}  // namespace capstan::telemetry

#endif  // CAPSTAN_SERVICES_TELEMETRY_LOST_CURSORS_H_
