#ifndef CAPSTAN_SERVICES_TELEMETRY_ADAPTERS_ARCHIVE_FILE_H_
#define CAPSTAN_SERVICES_TELEMETRY_ADAPTERS_ARCHIVE_FILE_H_

#include "libs/store/sqlite_copy.h"

namespace capstan::telemetry {

// What SqliteJobArchive keeps, for it and for backup, restore and check. A copy has no
// page_token_key; a restored one gets its own.
//
//   jobs(uid, project, name, state, queue, create_ns, end_ns, archive_ns, job)
//   labels(uid, key, value)
//   secret(page_token_key)
store::SqliteFileKind ArchiveFile();

}  // namespace capstan::telemetry

#endif  // CAPSTAN_SERVICES_TELEMETRY_ADAPTERS_ARCHIVE_FILE_H_
