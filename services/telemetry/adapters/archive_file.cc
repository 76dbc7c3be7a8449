#include "services/telemetry/adapters/archive_file.h"

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "libs/store/sqlite_connection.h"
#include "openssl/rand.h"
#include "proto/capstan/scheduler/v1/job.pb.h"

namespace capstan::telemetry {
namespace {

using store::SqliteConnection;
using store::SqliteStatement;

// "CAPA".
constexpr int32_t kApplicationId = 0x43415041;

constexpr char kCreateTables[] = R"(
CREATE TABLE jobs(
  uid TEXT PRIMARY KEY,
  project TEXT NOT NULL,
  name TEXT NOT NULL,
  state INTEGER NOT NULL,
  queue TEXT NOT NULL,
  create_ns INTEGER NOT NULL,
  end_ns INTEGER NOT NULL,
  archive_ns INTEGER NOT NULL,
  job BLOB NOT NULL);
CREATE INDEX jobs_by_age ON jobs(project, create_ns, uid, state, end_ns, queue);
CREATE INDEX jobs_by_name ON jobs(name, create_ns, uid);
CREATE INDEX jobs_by_end ON jobs(end_ns, uid);
CREATE TABLE labels(
  uid TEXT NOT NULL,
  key TEXT NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY (uid, key)) WITHOUT ROWID;
CREATE TABLE secret(page_token_key BLOB NOT NULL);
)";

absl::Status PutNewKey(SqliteConnection* connection) {
  std::string key(32, '\0');
  if (RAND_bytes(reinterpret_cast<unsigned char*>(key.data()), static_cast<int>(key.size())) != 1) {
    return absl::InternalError("no random bytes");
  }
  CAPSTAN_RETURN_IF_ERROR(connection->Execute("DELETE FROM secret"));
  return connection->Query("INSERT INTO secret VALUES (?)").BindBlob(key).Run();
}

absl::Status Damaged(const std::string& uid) {
  return status::Error(absl::StatusCode::kDataLoss, "ARCHIVE_DAMAGED",
                       absl::StrCat("the archived Job ", uid, " cannot be read"));
}

absl::StatusOr<int64_t> CheckArchive(SqliteConnection* connection) {
  int64_t jobs = 0;
  {
    SqliteStatement row = connection->Query("SELECT uid, name, job FROM jobs");
    while (row.Next()) {
      scheduler::v1::Job job;
      if (!job.ParseFromString(row.Blob(2)) || job.uid() != row.Blob(0) ||
          job.name() != row.Blob(1)) {
        return Damaged(row.Blob(0));
      }
      ++jobs;
    }
    CAPSTAN_RETURN_IF_ERROR(row.status());
  }
  SqliteStatement row =
      connection->Query("SELECT uid FROM labels WHERE uid NOT IN (SELECT uid FROM jobs) LIMIT 1");
  if (row.Next()) return Damaged(absl::StrCat(row.Blob(0), ", which has labels only,"));
  CAPSTAN_RETURN_IF_ERROR(row.status());
  return jobs;
}

}  // namespace

store::SqliteFileKind ArchiveFile() {
  store::SqliteFileKind kind;
  kind.name = "archive.sqlite";
  kind.records = "archived Jobs";
  kind.schema.kind = "an archive of Jobs";
  kind.schema.foreign_reason = "NOT_AN_ARCHIVE";
  kind.schema.application_id = kApplicationId;
  kind.schema.steps = {[](SqliteConnection* connection) -> absl::Status {
    CAPSTAN_RETURN_IF_ERROR(connection->Execute(kCreateTables));
    return PutNewKey(connection);
  }};
  kind.check = CheckArchive;
  kind.redact = [](SqliteConnection* connection) {
    return connection->Execute("DELETE FROM secret");
  };
  kind.prepare_restored = PutNewKey;
  return kind;
}

}  // namespace capstan::telemetry
