#include "services/telemetry/adapters/sqlite_subscription_store.h"

#include "libs/crash_point/crash_point.h"
#include "libs/crash_point/points.h"
#include "libs/status/status_macros.h"
#include "libs/store/sqlite_maintenance.h"
#include "libs/store/sqlite_schema.h"
#include "services/telemetry/adapters/subscriptions_file.h"

namespace capstan::telemetry {
namespace {

using store::SqliteConnection;

}  // namespace

absl::StatusOr<std::unique_ptr<SqliteSubscriptionStore>> SqliteSubscriptionStore::Open(
    const std::string& path, const Clock* clock) {
  CAPSTAN_ASSIGN_OR_RETURN(auto lock, store::FileLock::Acquire(path + ".lock"));
  CAPSTAN_RETURN_IF_ERROR(store::CheckNoUnfinishedRestore(path));
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
  store::SqliteSchema schema = SubscriptionsFile().schema;
  schema.file = path;
  return store::PrepareSqliteSchema(db_.get(), schema);
}

absl::StatusOr<std::vector<core::SubscriptionRecord>> SqliteSubscriptionStore::Load() {
  return ReadSubscriptions(db_.get());
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
  if (written.ok()) {
    CrashPoint(crash::kTelemetryBeforeSubscriptions);
    written = db_->Execute("COMMIT");
  }
  if (written.ok()) {
    CrashPoint(crash::kTelemetrySubscriptionsStored);
  } else {
    db_->Execute("ROLLBACK").IgnoreError();
  }
  return written;
}

}  // namespace capstan::telemetry
