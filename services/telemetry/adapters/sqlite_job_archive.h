#ifndef CAPSTAN_SERVICES_TELEMETRY_ADAPTERS_SQLITE_JOB_ARCHIVE_H_
#define CAPSTAN_SERVICES_TELEMETRY_ADAPTERS_SQLITE_JOB_ARCHIVE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/store/file_lock.h"
#include "libs/store/sqlite_connection.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/clock.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "proto/capstan/telemetry/v1/archive.pb.h"
#include "services/telemetry/core/archive_query.h"
#include "services/telemetry/ports/job_archive.h"

namespace capstan::telemetry {

// The archive of ended Jobs: one SQLite file, owned by this process by a lock on `<path>.lock`,
// with a thread of its own, on which callbacks run, so that neither a sync nor a long search holds
// up Streams. Its tables are those of archive_file.h.
class SqliteJobArchive final : public JobArchive {
 public:
  struct Options {
    std::string path;
    // A Job goes so long after its end, and the oldest ones go first beyond so many.
    absl::Duration keep_for = absl::Hours(24 * 365);
    int64_t max_jobs = 1'000'000;
    // Of one page; a page may hold less, even nothing, when much had to be looked at.
    int64_t page_rows = 20'000;
    int64_t page_bytes = 2 << 20;
  };
  // Blocks for the file's recovery. STORE_LOCKED, RESTORE_UNFINISHED, NOT_AN_ARCHIVE,
  // SCHEMA_TOO_NEW.
  static absl::StatusOr<std::unique_ptr<SqliteJobArchive>> Open(Options options,
                                                                const Clock* clock);
  // 32 random bytes, made with the file: what page tokens of its lists are sealed with.
  const std::string& page_token_key() const { return page_token_key_; }
  // What waits is dropped unanswered.
  ~SqliteJobArchive() override;
  SqliteJobArchive(const SqliteJobArchive&) = delete;
  SqliteJobArchive& operator=(const SqliteJobArchive&) = delete;

  void Put(std::vector<scheduler::v1::Job> jobs,
           absl::AnyInvocable<void(absl::Status)> done) override;
  void Get(std::string name, std::string uid,
           absl::AnyInvocable<void(absl::StatusOr<v1::ArchivedJob>)> done) override;
  void List(std::string project, ArchiveFilter filter, Position after, int limit,
            absl::AnyInvocable<void(absl::StatusOr<Page>)> done) override;

 private:
  SqliteJobArchive(Options options, const Clock* clock, std::unique_ptr<store::FileLock> lock,
                   std::unique_ptr<store::SqliteConnection> connection)
      : options_(std::move(options)),
        lock_(std::move(lock)),
        db_(std::move(connection)),
        strand_("archive", clock) {}

  absl::Status Prepare();
  absl::Status PutAll(const std::vector<scheduler::v1::Job>& jobs);
  absl::Status PutOne(const scheduler::v1::Job& job, absl::Time now);
  // Lets a bounded number of Jobs go that are beyond what is kept.
  absl::Status Trim(absl::Time now);
  absl::StatusOr<v1::ArchivedJob> GetOne(const std::string& name, const std::string& uid);
  absl::StatusOr<v1::ArchivedJob> Read(const std::string& uid);
  absl::StatusOr<bool> HasLabels(const std::string& uid, const ArchiveFilter& filter);
  absl::StatusOr<Page> ListSome(const std::string& project, const ArchiveFilter& filter,
                                const Position& after, int limit);

  const Options options_;
  const std::unique_ptr<store::FileLock> lock_;
  const std::unique_ptr<store::SqliteConnection> db_;
  std::string page_token_key_;
  int64_t count_ = 0;
  // Last: nothing runs on it any more when the rest goes.
  ThreadStrand strand_;
};

}  // namespace capstan::telemetry

#endif  // CAPSTAN_SERVICES_TELEMETRY_ADAPTERS_SQLITE_JOB_ARCHIVE_H_
