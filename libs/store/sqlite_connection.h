#ifndef CAPSTAN_LIBS_STORE_SQLITE_CONNECTION_H_
#define CAPSTAN_LIBS_STORE_SQLITE_CONNECTION_H_

#include <sqlite3.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace capstan::store {

// A prepared statement in use: made by SqliteConnection::Query, which keeps it for the next time.
// An error of any step is kept and returned by the next ones and by status().
class SqliteStatement {
 public:
  SqliteStatement(sqlite3* db, sqlite3_stmt* statement, absl::Status status)
      : db_(db), statement_(statement), status_(std::move(status)) {}
  ~SqliteStatement();
  SqliteStatement(SqliteStatement&& other) noexcept;
  SqliteStatement& operator=(SqliteStatement&&) = delete;

  // Binds the next parameter, from the first on. Blobs must live until the statement is gone.
  SqliteStatement& Bind(int64_t number);
  SqliteStatement& BindBlob(absl::string_view bytes);
  SqliteStatement& BindText(absl::string_view text);

  // True if there is a row now.
  bool Next();
  // Runs to the end and returns the outcome.
  absl::Status Run();
  const absl::Status& status() const { return status_; }

  int64_t Int(int column) const { return sqlite3_column_int64(statement_, column); }
  std::string Blob(int column) const;
  bool IsNull(int column) const { return sqlite3_column_type(statement_, column) == SQLITE_NULL; }

 private:
  void Check(int rc);

  sqlite3* db_;
  sqlite3_stmt* statement_;
  absl::Status status_;
  int next_parameter_ = 1;
};

// One connection to a database file, with its prepared statements. For one thread at a time.
class SqliteConnection {
 public:
  // Opens, and creates if asked to. A file that may be written is its owner's alone from then on.
  static absl::StatusOr<std::unique_ptr<SqliteConnection>> Open(const std::string& path,
                                                                bool writable, bool create);
  ~SqliteConnection();

  // `sql` must be a constant: it is the key under which the statement is kept.
  SqliteStatement Query(const char* sql);
  // For statements without results and parameters.
  absl::Status Execute(const std::string& sql);
  // The one number that `sql` yields, e.g. of a PRAGMA.
  absl::StatusOr<int64_t> Number(const char* sql);

  // From here on nothing is checkpointed but by Checkpoint, on whatever connection. `told` learns
  // after each commit of this one, on its thread, how many pages the write-ahead log holds.
  void OnCommit(std::function<void(int pages)> told);
  // Copies pages of the log into the file and syncs that, so that the log may begin anew: all that
  // no reader's snapshot is in the way of, and that was committed when it began. Another connection
  // may write meanwhile.
  struct Checkpointed {
    int in_log = 0;
    // Of those, from the first on.
    int copied = 0;
  };
  absl::StatusOr<Checkpointed> Checkpoint();

  sqlite3* raw() { return db_; }

 private:
  explicit SqliteConnection(sqlite3* db) : db_(db) {}

  sqlite3* const db_;
  std::map<const char*, sqlite3_stmt*> statements_;
  std::function<void(int pages)> on_commit_;
};

// Maps a result code: a full disk or quota to RESOURCE_EXHAUSTED/NO_SPACE, a damaged file to
// DATA_LOSS, a lock to UNAVAILABLE, the rest to INTERNAL.
absl::Status SqliteError(sqlite3* db, int rc, absl::string_view what);

}  // namespace capstan::store

#endif  // CAPSTAN_LIBS_STORE_SQLITE_CONNECTION_H_
