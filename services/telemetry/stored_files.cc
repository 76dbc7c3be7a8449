#include "services/telemetry/stored_files.h"

#include "services/telemetry/adapters/archive_file.h"
#include "services/telemetry/adapters/subscriptions_file.h"

namespace capstan::telemetry {

std::vector<store::SqliteFileKind> StoredFiles() { return {ArchiveFile(), SubscriptionsFile()}; }

}  // namespace capstan::telemetry
