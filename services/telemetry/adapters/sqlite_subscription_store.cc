#include "services/telemetry/adapters/sqlite_subscription_store.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "libs/store/sqlite_schema.h"

namespace capstan::telemetry {
namespace {

using store::SqliteConnection;
using store::SqliteStatement;

// "CAPU": marks the file as ours.
constexpr int32_t kApplicationId = 0x43415055;

constexpr char kCreateTable[] =
    "CREATE TABLE subscriptions(name TEXT PRIMARY KEY, record BLOB NOT NULL) WITHOUT ROWID";

store::SqliteSchema SubscriptionsSchema(const std::string& path) {
  store::SqliteSchema schema;
  schema.file = path;
  schema.kind = "one of subscriptions";
  schema.foreign_reason = "NOT_SUBSCRIPTIONS";
  schema.application_id = kApplicationId;
  schema.steps = {[](SqliteConnection* connection) { return connection->Execute(kCreateTable); }};
  return schema;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SqliteSubscriptionStore>> SqliteSubscriptionStore::Open(
    const std::string& path, const Clock* clock) {
  CAPSTAN_ASSIGN_OR_RETURN(auto lock, store::FileLock::Acquire(path + ".lock"));
  CAPSTAN_ASSIGN_OR_RETURN(auto db, SqliteConnection::Open(path, true, true));
  auto made = std::unique_ptr<SqliteSubscriptionStore>(
      new SqliteSubscriptionStore(clock, std::move(lock), std::move(db)));
  CAPSTAN_RETURN_IF_ERROR(made->Prepare(path));
  return made;
}

SqliteSubscriptionStore::~SqliteSubscriptionStore() { strand_.Stop(); }

absl::Status SqliteSubscriptionStore::Prepare(const std::string& path) {
  CAPSTAN_RETURN_IF_ERROR(db_->Execute("PRAGMA journal_mode = WAL"));
  CAPSTAN_RETURN_IF_ERROR(db_->Execute("PRAGMA synchronous = FULL"));
  return store::PrepareSqliteSchema(db_.get(), SubscriptionsSchema(path));
}

absl::StatusOr<std::vector<core::SubscriptionRecord>> SqliteSubscriptionStore::Load() {
  std::vector<core::SubscriptionRecord> all;
  SqliteStatement row = db_->Query("SELECT name, record FROM subscriptions ORDER BY name");
  while (row.Next()) {
    core::SubscriptionRecord record;
    if (!record.ParseFromString(row.Blob(1)) || record.name() != row.Blob(0)) {
      return status::Error(absl::StatusCode::kDataLoss, "SUBSCRIPTION_DAMAGED",
                           absl::StrCat("the record of ", row.Blob(0), " can't be parsed"));
    }
    all.push_back(std::move(record));
  }
  CAPSTAN_RETURN_IF_ERROR(row.status());
  return all;
}

void SqliteSubscriptionStore::Put(core::SubscriptionRecord record, Done done) {
  Take({record.name(), record.SerializeAsString(), std::move(done)});
}

void SqliteSubscriptionStore::Remove(std::string name, Done done) {
  Take({std::move(name), absl::nullopt, std::move(done)});
}

void SqliteSubscriptionStore::Take(Write write) {
  absl::MutexLock lock(&mutex_);
  waiting_.push_back(std::move(write));
  if (waiting_.size() == 1) strand_.Post([this] { WriteGroup(); });
}

void SqliteSubscriptionStore::WriteGroup() {
  std::deque<Write> group;
  {
    absl::MutexLock lock(&mutex_);
    group.swap(waiting_);
  }
  const absl::Status written = WriteAll(group);
  for (Write& write : group) write.done(written);
}

absl::Status SqliteSubscriptionStore::WriteAll(const std::deque<Write>& group) {
  absl::Status written = db_->Execute("BEGIN IMMEDIATE");
  for (const Write& write : group) {
    if (!written.ok()) break;
    if (write.record.has_value()) {
      written = db_->Query("INSERT OR REPLACE INTO subscriptions VALUES (?, ?)")
                    .BindText(write.name)
                    .BindBlob(*write.record)
                    .Run();
    } else {
      written = db_->Query("DELETE FROM subscriptions WHERE name = ?").BindText(write.name).Run();
    }
  }
  if (written.ok()) written = db_->Execute("COMMIT");
  if (!written.ok()) db_->Execute("ROLLBACK").IgnoreError();
  return written;
}

}  // namespace capstan::telemetry
