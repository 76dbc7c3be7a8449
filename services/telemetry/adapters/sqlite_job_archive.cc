#include "services/telemetry/adapters/sqlite_job_archive.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/crash_point/crash_point.h"
#include "libs/crash_point/points.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "libs/store/sqlite_maintenance.h"
#include "libs/store/sqlite_schema.h"
#include "libs/time/proto_time.h"
#include "services/telemetry/adapters/archive_file.h"

namespace capstan::telemetry {
namespace {

using scheduler::v1::Job;
using store::SqliteConnection;
using store::SqliteStatement;

// Jobs that leave with each call that brings some: more than can come.
constexpr int64_t kTrimmedAtOnce = 400;

int64_t Nanos(absl::Time time) { return absl::ToUnixNanos(time); }

std::string JobIdOf(absl::string_view name) {
  return std::string(name.substr(name.rfind('/') + 1));
}

}  // namespace

absl::StatusOr<std::unique_ptr<SqliteJobArchive>> SqliteJobArchive::Open(Options options,
                                                                         const Clock* clock) {
  CAPSTAN_ASSIGN_OR_RETURN(auto lock, store::FileLock::Acquire(options.path + ".lock"));
  CAPSTAN_RETURN_IF_ERROR(store::CheckNoUnfinishedRestore(options.path));
  CAPSTAN_ASSIGN_OR_RETURN(auto db, SqliteConnection::Open(options.path, true, true));
  auto archive = std::unique_ptr<SqliteJobArchive>(
      new SqliteJobArchive(std::move(options), clock, std::move(lock), std::move(db)));
  CAPSTAN_RETURN_IF_ERROR(archive->Prepare());
  return archive;
}

SqliteJobArchive::~SqliteJobArchive() { strand_.Stop(); }

absl::Status SqliteJobArchive::Prepare() {
  CAPSTAN_RETURN_IF_ERROR(db_->Execute("PRAGMA auto_vacuum = INCREMENTAL"));
  CAPSTAN_RETURN_IF_ERROR(db_->Execute("PRAGMA journal_mode = WAL"));
  CAPSTAN_RETURN_IF_ERROR(db_->Execute("PRAGMA synchronous = FULL"));
  store::SqliteSchema schema = ArchiveFile().schema;
  schema.file = options_.path;
  CAPSTAN_RETURN_IF_ERROR(store::PrepareSqliteSchema(db_.get(), schema));
  {
    SqliteStatement row = db_->Query("SELECT page_token_key FROM secret");
    if (row.Next()) page_token_key_ = row.Blob(0);
    CAPSTAN_RETURN_IF_ERROR(row.status());
  }
  CAPSTAN_ASSIGN_OR_RETURN(count_, db_->Number("SELECT count(*) FROM jobs"));
  return absl::OkStatus();
}

void SqliteJobArchive::Put(std::vector<Job> jobs, absl::AnyInvocable<void(absl::Status)> done) {
  strand_.Post([this, jobs = std::move(jobs), done = std::move(done)]() mutable {
    const int64_t before = count_;
    absl::Status put = db_->Execute("BEGIN IMMEDIATE");
    if (put.ok()) put = PutAll(jobs);
    if (put.ok()) {
      CrashPoint(crash::kTelemetryBeforeArchive);
      put = db_->Execute("COMMIT");
    }
    if (!put.ok()) {
      count_ = before;
      db_->Execute("ROLLBACK").IgnoreError();
    } else {
      CrashPoint(crash::kTelemetryArchived);
      // What has left gives its room back, a bit at a time; not needed for the answer to be true.
      db_->Execute("PRAGMA incremental_vacuum(256)").IgnoreError();
    }
    done(put);
  });
}

absl::Status SqliteJobArchive::PutAll(const std::vector<Job>& jobs) {
  const absl::Time now = strand_.clock().Read().wall;
  for (const Job& job : jobs) CAPSTAN_RETURN_IF_ERROR(PutOne(job, now));
  return Trim(now);
}

absl::Status SqliteJobArchive::PutOne(const Job& job, absl::Time now) {
  {
    SqliteStatement known = db_->Query("SELECT 1 FROM jobs WHERE uid = ?");
    known.BindText(job.uid());
    if (known.Next()) return absl::OkStatus();
    CAPSTAN_RETURN_IF_ERROR(known.status());
  }
  const std::string project = ProjectOfJob(job.name());
  const std::string bytes = job.SerializeAsString();
  CAPSTAN_RETURN_IF_ERROR(db_->Query("INSERT INTO jobs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)")
                              .BindText(job.uid())
                              .BindText(project)
                              .BindText(job.name())
                              .Bind(job.state())
                              .BindText(job.spec().queue())
                              .Bind(Nanos(ToTime(job.create_time())))
                              .Bind(Nanos(ToTime(job.end_time())))
                              .Bind(Nanos(now))
                              .BindBlob(bytes)
                              .Run());
  for (const auto& [key, value] : job.spec().labels()) {
    CAPSTAN_RETURN_IF_ERROR(db_->Query("INSERT INTO labels VALUES (?, ?, ?)")
                                .BindText(job.uid())
                                .BindText(key)
                                .BindText(value)
                                .Run());
  }
  ++count_;
  return absl::OkStatus();
}

absl::Status SqliteJobArchive::Trim(absl::Time now) {
  const int64_t bound = Nanos(now - options_.keep_for);
  int64_t too_many = std::max<int64_t>(0, count_ - options_.max_jobs);
  std::vector<std::string> gone;
  {
    SqliteStatement row = db_->Query("SELECT uid, end_ns FROM jobs ORDER BY end_ns, uid LIMIT ?");
    row.Bind(kTrimmedAtOnce);
    while (row.Next() && (too_many-- > 0 || row.Int(1) < bound)) gone.push_back(row.Blob(0));
    CAPSTAN_RETURN_IF_ERROR(row.status());
  }
  for (const std::string& uid : gone) {
    CAPSTAN_RETURN_IF_ERROR(db_->Query("DELETE FROM jobs WHERE uid = ?").BindText(uid).Run());
    CAPSTAN_RETURN_IF_ERROR(db_->Query("DELETE FROM labels WHERE uid = ?").BindText(uid).Run());
    --count_;
  }
  return absl::OkStatus();
}

void SqliteJobArchive::Get(std::string name, std::string uid,
                           absl::AnyInvocable<void(absl::StatusOr<v1::ArchivedJob>)> done) {
  strand_.Post([this, name = std::move(name), uid = std::move(uid),
                done = std::move(done)]() mutable { done(GetOne(name, uid)); });
}

absl::StatusOr<v1::ArchivedJob> SqliteJobArchive::GetOne(const std::string& name,
                                                         const std::string& uid) {
  std::string found;
  {
    SqliteStatement row = db_->Query(
        "SELECT uid FROM jobs WHERE name = ?1 AND (?2 = '' OR uid = ?2)"
        " ORDER BY create_ns DESC, uid DESC LIMIT 1");
    row.BindText(name).BindText(uid);
    if (row.Next()) found = row.Blob(0);
    CAPSTAN_RETURN_IF_ERROR(row.status());
  }
  if (found.empty()) return status::NotFound(name);
  return Read(found);
}

absl::StatusOr<v1::ArchivedJob> SqliteJobArchive::Read(const std::string& uid) {
  SqliteStatement row = db_->Query("SELECT job, archive_ns FROM jobs WHERE uid = ?");
  row.BindText(uid);
  v1::ArchivedJob archived;
  if (!row.Next()) return row.status().ok() ? status::NotFound(uid) : row.status();
  if (!archived.mutable_job()->ParseFromString(row.Blob(0))) {
    return status::Error(absl::StatusCode::kDataLoss, "RECORD_CORRUPT",
                         absl::StrCat("the archived Job ", uid, " cannot be read"));
  }
  *archived.mutable_archive_time() = ToProto(absl::FromUnixNanos(row.Int(1)));
  return archived;
}

absl::StatusOr<bool> SqliteJobArchive::HasLabels(const std::string& uid,
                                                 const ArchiveFilter& filter) {
  for (const auto& [key, value] : filter.labels) {
    SqliteStatement row =
        db_->Query("SELECT 1 FROM labels WHERE uid = ? AND key = ? AND value = ?");
    row.BindText(uid).BindText(key).BindText(value);
    const bool there = row.Next();
    CAPSTAN_RETURN_IF_ERROR(row.status());
    if (!there) return false;
  }
  return true;
}

void SqliteJobArchive::List(std::string project, ArchiveFilter filter, Position after, int limit,
                            absl::AnyInvocable<void(absl::StatusOr<Page>)> done) {
  strand_.Post(
      [this, project = std::move(project), filter = std::move(filter), after = std::move(after),
       limit, done = std::move(done)]() mutable { done(ListSome(project, filter, after, limit)); });
}

absl::StatusOr<SqliteJobArchive::Page> SqliteJobArchive::ListSome(const std::string& project,
                                                                  const ArchiveFilter& filter,
                                                                  const Position& after,
                                                                  int limit) {
  // A name or a uid has an index of its own.
  SqliteStatement row = [&] {
    if (!filter.uid.empty()) {
      return db_->Query(
          "SELECT create_ns, uid, state, end_ns, queue, name FROM jobs WHERE project = ?"
          " AND (create_ns, uid) < (?, ?) AND uid = ? ORDER BY create_ns DESC, uid DESC");
    }
    if (!filter.job.empty()) {
      return db_->Query(
          "SELECT create_ns, uid, state, end_ns, queue, name FROM jobs WHERE project = ?"
          " AND (create_ns, uid) < (?, ?) AND name = ? ORDER BY create_ns DESC, uid DESC");
    }
    return db_->Query(
        "SELECT create_ns, uid, state, end_ns, queue, '' FROM jobs WHERE project = ?"
        " AND (create_ns, uid) < (?, ?) ORDER BY create_ns DESC, uid DESC");
  }();
  const std::string name = absl::StrCat(project, "/jobs/", filter.job);
  row.BindText(project).Bind(Nanos(after.create_time)).BindText(after.uid);
  if (!filter.uid.empty()) {
    row.BindText(filter.uid);
  } else if (!filter.job.empty()) {
    row.BindText(name);
  }
  const int64_t from = Nanos(filter.end_from);
  const int64_t before = Nanos(filter.end_before);
  Page page;
  Position last = after;
  int64_t rows = 0;
  int64_t bytes = 0;
  while (row.Next()) {
    if (static_cast<int>(page.jobs.size()) == limit || rows++ == options_.page_rows ||
        bytes > options_.page_bytes) {
      page.next = last;
      return page;
    }
    last = {absl::FromUnixNanos(row.Int(0)), row.Blob(1)};
    const bool right_state =
        filter.state == Job::STATE_UNSPECIFIED || row.Int(2) == static_cast<int64_t>(filter.state);
    const bool right_time = row.Int(3) >= from && row.Int(3) < before;
    const bool right_queue = filter.queue.empty() || row.Blob(4) == filter.queue;
    const bool right_name = filter.job.empty() || JobIdOf(row.Blob(5)) == filter.job;
    if (!right_state || !right_time || !right_queue || !right_name) continue;
    CAPSTAN_ASSIGN_OR_RETURN(const bool right_labels, HasLabels(last.uid, filter));
    if (!right_labels) continue;
    CAPSTAN_ASSIGN_OR_RETURN(v1::ArchivedJob archived, Read(last.uid));
    bytes += static_cast<int64_t>(archived.ByteSizeLong());
    page.jobs.push_back(std::move(archived));
  }
  CAPSTAN_RETURN_IF_ERROR(row.status());
  return page;
}

}  // namespace capstan::telemetry
