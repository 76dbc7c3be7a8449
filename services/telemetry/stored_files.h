#ifndef CAPSTAN_SERVICES_TELEMETRY_STORED_FILES_H_
#define CAPSTAN_SERVICES_TELEMETRY_STORED_FILES_H_

#include <vector>

#include "libs/store/sqlite_copy.h"

namespace capstan::telemetry {

// For backup, restore and check of what telemetry keeps in SQLite files, in its data folder, in the
// order in which they are copied.
std::vector<store::SqliteFileKind> StoredFiles();

}  // namespace capstan::telemetry

#endif  // CAPSTAN_SERVICES_TELEMETRY_STORED_FILES_H_
