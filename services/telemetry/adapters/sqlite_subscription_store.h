#ifndef CAPSTAN_SERVICES_TELEMETRY_ADAPTERS_SQLITE_SUBSCRIPTION_STORE_H_
#define CAPSTAN_SERVICES_TELEMETRY_ADAPTERS_SQLITE_SUBSCRIPTION_STORE_H_

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/optional.h"
#include "libs/store/file_lock.h"
#include "libs/store/sqlite_connection.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/clock.h"
#include "services/telemetry/core/records.pb.h"
#include "services/telemetry/ports/subscription_store.h"

namespace capstan::telemetry {

// Subscriptions in a SQLite file of their own (WAL, synchronous=FULL), owned by this process
// through a lock on `<path>.lock`, with a thread on which answers come. What came together is one
// transaction. Its table is that of subscriptions_file.h.
class SqliteSubscriptionStore final : public SubscriptionStore {
 public:
  // Blocks for the file's recovery. STORE_LOCKED, RESTORE_UNFINISHED, NOT_SUBSCRIPTIONS,
  // SCHEMA_TOO_NEW.
  static absl::StatusOr<std::unique_ptr<SqliteSubscriptionStore>> Open(const std::string& path,
                                                                       const Clock* clock);
  // What waits is dropped unanswered.
  ~SqliteSubscriptionStore() override;
  SqliteSubscriptionStore(const SqliteSubscriptionStore&) = delete;
  SqliteSubscriptionStore& operator=(const SqliteSubscriptionStore&) = delete;

  // DATA_LOSS with SUBSCRIPTION_DAMAGED, with the name.
  absl::StatusOr<std::vector<core::SubscriptionRecord>> Load() override;
  void Put(core::SubscriptionRecord record, Done done) override;
  void Remove(std::string name, Done done) override;

 private:
  struct Write {
    std::string name;
    // Absent: it is removed.
    absl::optional<std::string> record;
    Done done;
  };

  SqliteSubscriptionStore(const Clock* clock, std::unique_ptr<store::FileLock> lock,
                          std::unique_ptr<store::SqliteConnection> connection)
      : lock_(std::move(lock)), db_(std::move(connection)), strand_("subscriptions", clock) {}

  absl::Status Prepare(const std::string& path);
  void Take(Write write);
  // Writes all that waits.
  void WriteGroup();
  absl::Status WriteAll(const std::deque<Write>& group);

  const std::unique_ptr<store::FileLock> lock_;
  const std::unique_ptr<store::SqliteConnection> db_;
  absl::Mutex mutex_;
  std::deque<Write> waiting_ ABSL_GUARDED_BY(mutex_);
  // Last: nothing runs on it any more when the rest goes.
  ThreadStrand strand_;
};

}  // namespace capstan::telemetry

#endif  // CAPSTAN_SERVICES_TELEMETRY_ADAPTERS_SQLITE_SUBSCRIPTION_STORE_H_
