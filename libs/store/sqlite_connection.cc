#include "libs/store/sqlite_connection.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/status/error.h"
#include "libs/store/store.h"
#include "libs/store/txn_rules.h"

namespace capstan::store {
namespace {

constexpr int kBusyTimeoutMs = 10000;

// Whoever may read the file may read all that a service keeps, whatever folder it lies in. What
// SQLite makes beside it gets its mode. Errors are told by the opening that follows, or are of a
// file that is not ours.
void MakePrivate(const std::string& path, bool create) {
  if (create) {
    // One that is there must not even be opened: closing it would end the locks that this process's
    // other connections hold.
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0) ::close(fd);
  }
  for (const char* beside : {"", "-wal", "-shm"}) {
    const std::string file = path + beside;
    struct stat info = {};
    if (::stat(file.c_str(), &info) == 0 && (info.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
      static_cast<void>(::chmod(file.c_str(), info.st_mode & S_IRWXU));
    }
  }
}

}  // namespace

absl::Status SqliteError(sqlite3* db, int rc, absl::string_view what) {
  const int system_errno = db != nullptr ? sqlite3_system_errno(db) : 0;
  std::string text = absl::StrCat(what, ": ", sqlite3_errstr(rc));
  if (db != nullptr) absl::StrAppend(&text, " (", sqlite3_errmsg(db), ")");
  switch (rc & 0xff) {
    case SQLITE_FULL:
      return NoSpaceError(text);
    case SQLITE_IOERR:
      // A failed fsync says nothing about what is on disk, whatever its errno.
      if (rc != SQLITE_IOERR_FSYNC && (system_errno == ENOSPC || system_errno == EDQUOT)) {
        return NoSpaceError(text);
      }
      return status::Error(absl::StatusCode::kInternal, "STORE_IO_ERROR", text,
                           {{"errno", absl::StrCat(system_errno)}});
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return status::Error(absl::StatusCode::kDataLoss, "STORE_CORRUPT", text);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return absl::UnavailableError(text);
    default:
      return absl::InternalError(text);
  }
}

SqliteStatement::SqliteStatement(SqliteStatement&& other) noexcept
    : db_(other.db_),
      statement_(std::exchange(other.statement_, nullptr)),
      status_(std::move(other.status_)),
      next_parameter_(other.next_parameter_) {}

SqliteStatement::~SqliteStatement() {
  if (statement_ == nullptr) return;
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
}

void SqliteStatement::Check(int rc) {
  if (rc != SQLITE_OK && status_.ok()) {
    status_ = SqliteError(db_, rc, statement_ != nullptr ? sqlite3_sql(statement_) : "prepare");
  }
}

SqliteStatement& SqliteStatement::Bind(int64_t number) {
  if (status_.ok()) Check(sqlite3_bind_int64(statement_, next_parameter_++, number));
  return *this;
}

SqliteStatement& SqliteStatement::BindBlob(absl::string_view bytes) {
  if (!status_.ok()) return *this;
  // A null pointer would bind NULL, which is not an empty blob.
  const char* data = bytes.data() == nullptr ? "" : bytes.data();
  Check(sqlite3_bind_blob64(statement_, next_parameter_++, data, bytes.size(), SQLITE_STATIC));
  return *this;
}

SqliteStatement& SqliteStatement::BindText(absl::string_view text) {
  if (!status_.ok()) return *this;
  Check(sqlite3_bind_text(statement_, next_parameter_++, text.data(), static_cast<int>(text.size()),
                          SQLITE_STATIC));
  return *this;
}

bool SqliteStatement::Next() {
  if (!status_.ok()) return false;
  const int rc = sqlite3_step(statement_);
  if (rc == SQLITE_ROW) return true;
  if (rc != SQLITE_DONE) Check(rc);
  return false;
}

absl::Status SqliteStatement::Run() {
  while (Next()) {
  }
  return status_;
}

std::string SqliteStatement::Blob(int column) const {
  const void* data = sqlite3_column_blob(statement_, column);
  const int size = sqlite3_column_bytes(statement_, column);
  return data == nullptr ? std::string() : std::string(static_cast<const char*>(data), size);
}

absl::StatusOr<std::unique_ptr<SqliteConnection>> SqliteConnection::Open(const std::string& path,
                                                                         bool writable,
                                                                         bool create) {
  int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  flags |= writable ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY;
  if (create) flags |= SQLITE_OPEN_CREATE;
  if (writable) MakePrivate(path, create);
  sqlite3* db = nullptr;
  const int rc = sqlite3_open_v2(path.c_str(), &db, flags, nullptr);
  if (rc != SQLITE_OK) {
    absl::Status error = SqliteError(db, rc, absl::StrCat("opening ", path));
    sqlite3_close(db);
    return error;
  }
  sqlite3_busy_timeout(db, kBusyTimeoutMs);
  return std::unique_ptr<SqliteConnection>(new SqliteConnection(db));
}

SqliteConnection::~SqliteConnection() {
  for (const auto& [sql, statement] : statements_) sqlite3_finalize(statement);
  sqlite3_close(db_);
}

SqliteStatement SqliteConnection::Query(const char* sql) {
  sqlite3_stmt*& statement = statements_[sql];
  absl::Status status;
  if (statement == nullptr) {
    const int rc = sqlite3_prepare_v3(db_, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
    if (rc != SQLITE_OK) status = SqliteError(db_, rc, sql);
  }
  return SqliteStatement(db_, statement, std::move(status));
}

absl::Status SqliteConnection::Execute(const std::string& sql) {
  const int rc = sqlite3_exec(db_, sql.c_str(), nullptr, nullptr, nullptr);
  return rc == SQLITE_OK ? absl::OkStatus() : SqliteError(db_, rc, sql);
}

void SqliteConnection::OnCommit(std::function<void(int pages)> told) {
  on_commit_ = std::move(told);
  // It takes the place of the automatic checkpoint, which is a hook as well.
  sqlite3_wal_hook(
      db_,
      [](void* self, sqlite3*, const char*, int pages) {
        static_cast<SqliteConnection*>(self)->on_commit_(pages);
        return SQLITE_OK;
      },
      this);
}

absl::StatusOr<SqliteConnection::Checkpointed> SqliteConnection::Checkpoint() {
  Checkpointed done;
  const int rc = sqlite3_wal_checkpoint_v2(db_, nullptr, SQLITE_CHECKPOINT_PASSIVE, &done.in_log,
                                           &done.copied);
  if (rc != SQLITE_OK) return SqliteError(db_, rc, "checkpoint");
  return done;
}

absl::StatusOr<int64_t> SqliteConnection::Number(const char* sql) {
  SqliteStatement query = Query(sql);
  if (query.Next()) return query.Int(0);
  if (!query.status().ok()) return query.status();
  return absl::NotFoundError(absl::StrCat(sql, ": no row"));
}

}  // namespace capstan::store
