#include "services/telemetry/adapters/subscriptions_file.h"

#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "services/telemetry/core/subscription_book.h"

namespace capstan::telemetry {
namespace {

using store::SqliteConnection;
using store::SqliteStatement;

// "CAPU".
constexpr int32_t kApplicationId = 0x43415055;
// More readers than can have come between a backup and its restore.
constexpr int64_t kGenerationStep = 1'000'000;

constexpr char kCreateTable[] =
    "CREATE TABLE subscriptions(name TEXT PRIMARY KEY, record BLOB NOT NULL) WITHOUT ROWID";

absl::Status PrepareRestored(SqliteConnection* connection) {
  CAPSTAN_ASSIGN_OR_RETURN(std::vector<core::SubscriptionRecord> all,
                           ReadSubscriptions(connection));
  for (core::SubscriptionRecord& record : all) {
    record.set_reader_generation(record.reader_generation() + kGenerationStep);
    const std::string bytes = record.SerializeAsString();
    CAPSTAN_RETURN_IF_ERROR(connection->Query("UPDATE subscriptions SET record = ? WHERE name = ?")
                                .BindBlob(bytes)
                                .BindText(record.name())
                                .Run());
  }
  return absl::OkStatus();
}

}  // namespace

store::SqliteFileKind SubscriptionsFile() {
  store::SqliteFileKind kind;
  kind.name = "subscriptions.sqlite";
  kind.records = "subscriptions";
  kind.schema.kind = "one of subscriptions";
  kind.schema.foreign_reason = "NOT_SUBSCRIPTIONS";
  kind.schema.application_id = kApplicationId;
  kind.schema.steps = {
      [](SqliteConnection* connection) { return connection->Execute(kCreateTable); }};
  kind.check = [](SqliteConnection* connection) -> absl::StatusOr<int64_t> {
    CAPSTAN_ASSIGN_OR_RETURN(const auto all, ReadSubscriptions(connection));
    return static_cast<int64_t>(all.size());
  };
  kind.prepare_restored = PrepareRestored;
  return kind;
}

absl::StatusOr<std::vector<core::SubscriptionRecord>> ReadSubscriptions(
    SqliteConnection* connection) {
  std::vector<core::SubscriptionRecord> all;
  SqliteStatement row = connection->Query("SELECT name, record FROM subscriptions ORDER BY name");
  while (row.Next()) {
    core::SubscriptionRecord record;
    if (!record.ParseFromString(row.Blob(1)) || record.name() != row.Blob(0) ||
        !IsCursor(record.acknowledged_offset())) {
      return status::Error(absl::StatusCode::kDataLoss, "SUBSCRIPTION_DAMAGED",
                           absl::StrCat("the record of ", row.Blob(0), " can't be read"));
    }
    all.push_back(std::move(record));
  }
  CAPSTAN_RETURN_IF_ERROR(row.status());
  return all;
}

}  // namespace capstan::telemetry
