#ifndef CAPSTAN_LIBS_GOLDEN_SQLITE_DUMP_H_
#define CAPSTAN_LIBS_GOLDEN_SQLITE_DUMP_H_

#include <string>

#include "absl/strings/string_view.h"

namespace capstan::golden {

// A database as SQL: the numbers in its header that mark whose it is and of which schema, what made
// its tables and indexes, and their rows. How SQLite lays that out in pages is its own promise.
std::string DumpSqlite(const std::string& path);
// Makes at `path` the database that such a text says.
void RestoreSqlite(absl::string_view dump, const std::string& path);

}  // namespace capstan::golden

#endif  // CAPSTAN_LIBS_GOLDEN_SQLITE_DUMP_H_
