#include "libs/store/sqlite_store.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "libs/store/sqlite_store_body.h"
#include "libs/store/txn_rules.h"

namespace capstan::store {
namespace {

absl::Status SyncFile(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return absl::ErrnoToStatus(errno, path);
  const bool synced = ::fsync(fd) == 0;
  const int error = errno;
  ::close(fd);
  return synced ? absl::OkStatus() : absl::ErrnoToStatus(error, path);
}

}  // namespace

absl::StatusOr<std::unique_ptr<SqliteStore>> SqliteStore::Open(const std::string& path,
                                                               Strand* strand, Options options) {
  auto body = std::make_shared<Body>(strand, options);
  const absl::Status opened = body->Open(path);
  if (!opened.ok()) return status::Annotate(opened, absl::StrCat("store ", path));
  body->Start();
  return std::unique_ptr<SqliteStore>(new SqliteStore(std::move(body)));
}

SqliteStore::~SqliteStore() { body_->Close(); }

void SqliteStore::Range(RangeRequest request, Callback<RangeResult> done) {
  auto shared = std::make_shared<Callback<RangeResult>>(std::move(done));
  const absl::Status checked = CheckRange(request);
  if (!checked.ok()) return body_->Post([shared, checked] { (*shared)(checked); });
  body_->Read(
      [request = std::move(request), shared](Body& body) {
        auto found = body.InSnapshot([&] { return body.read_tables_->Range(request); });
        body.Post([shared, found = std::move(found)]() mutable { (*shared)(std::move(found)); });
      },
      [shared](absl::Status why) { (*shared)(std::move(why)); });
}

TxnBounds SqliteStore::txn_bounds() const {
  return {.ops = 8 * kMaxTxnOps, .bytes = size_t{8} << 20};
}

void SqliteStore::Txn(TxnRequest request, Callback<TxnResult> done) {
  const absl::Status checked = CheckTxn(request, txn_bounds());
  if (!checked.ok()) {
    return body_->Post([done = std::move(done), checked]() mutable { done(checked); });
  }
  auto result = std::make_shared<absl::StatusOr<TxnResult>>(absl::UnknownError("not run"));
  Body::Command command;
  command.puts = std::any_of(request.then.begin(), request.then.end(),
                             [](const Op& op) { return std::holds_alternative<Put>(op); });
  command.apply = [request = std::move(request), result](Body& body) {
    return body.write_tables_->Apply(request, &body.revision_, result.get(), &body.events_);
  };
  command.answer = [done = std::move(done), result](absl::Status status) mutable {
    if (status.ok()) return done(std::move(*result));
    done(std::move(status));
  };
  body_->Submit(std::move(command));
}

namespace {

class WatcherHandle final : public Watch {
 public:
  explicit WatcherHandle(std::shared_ptr<SqliteWatches::Watcher> watcher)
      : watcher_(std::move(watcher)) {}
  ~WatcherHandle() override { watcher_->cancelled = true; }

 private:
  const std::shared_ptr<SqliteWatches::Watcher> watcher_;
};

}  // namespace

std::unique_ptr<Watch> SqliteStore::StartWatch(
    WatchRequest request, absl::AnyInvocable<void(absl::StatusOr<WatchBatch>)> on_batch) {
  auto watcher = std::make_shared<SqliteWatches::Watcher>();
  watcher->next = request.start_revision;
  watcher->on_batch = std::move(on_batch);
  const absl::Status checked = CheckWatch(request);
  watcher->request = std::move(request);
  if (!checked.ok()) {
    body_->watches_.End(watcher, checked);
  } else {
    body_->watches_.Add(watcher);
    body_->StartCatchUp(watcher);
  }
  return std::make_unique<WatcherHandle>(std::move(watcher));
}

void SqliteStore::GrantLease(absl::Duration ttl, Callback<LeaseId> done) {
  const absl::Status checked = CheckTtl(ttl);
  if (!checked.ok()) {
    return body_->Post([done = std::move(done), checked]() mutable { done(checked); });
  }
  auto lease = std::make_shared<LeaseId>(0);
  Body::Command command;
  command.puts = true;
  command.apply = [ttl, lease](Body& body) -> absl::Status {
    CAPSTAN_ASSIGN_OR_RETURN(*lease, body.write_tables_->AddLease(ttl));
    return absl::OkStatus();
  };
  command.answer = [done = std::move(done), lease, ttl,
                    weak = std::weak_ptr<Body>(body_)](absl::Status status) mutable {
    if (!status.ok()) return done(std::move(status));
    if (const auto body = weak.lock()) body->LeaseGranted(*lease, ttl);
    done(*lease);
  };
  body_->Submit(std::move(command));
}

void SqliteStore::KeepAliveLease(LeaseId lease, Callback<absl::Duration> done) {
  body_->Post([result = body_->KeepAlive(lease), done = std::move(done)]() mutable {
    done(std::move(result));
  });
}

void SqliteStore::RevokeLease(LeaseId lease, DoneCallback done) {
  auto existed = std::make_shared<bool>(false);
  Body::Command command;
  command.apply = [lease, existed](Body& body) -> absl::Status {
    CAPSTAN_ASSIGN_OR_RETURN(*existed,
                             body.write_tables_->DropLease(lease, &body.revision_, &body.events_));
    return absl::OkStatus();
  };
  command.answer = [done = std::move(done), existed, lease,
                    weak = std::weak_ptr<Body>(body_)](absl::Status status) mutable {
    if (!status.ok()) return done(std::move(status));
    if (const auto body = weak.lock()) body->LeaseDropped(lease);
    done(*existed ? absl::OkStatus() : NoLeaseError(lease));
  };
  body_->Submit(std::move(command));
}

void SqliteStore::Compact(int64_t revision, DoneCallback done) {
  auto result = std::make_shared<absl::Status>();
  Body::Command command;
  command.apply = [revision, result](Body& body) -> absl::Status {
    *result = absl::OkStatus();
    if (revision > body.revision_) {
      *result = FutureError(revision, body.revision_);
      return absl::OkStatus();
    }
    if (revision <= body.compact_to_) return absl::OkStatus();
    return body.BeginCompaction(revision);
  };
  // Moved, so that the two threads share no status: abseil's count of references is invisible to
  // the thread sanitizer.
  command.answer = [done = std::move(done), result](absl::Status status) mutable {
    done(status.ok() ? std::move(*result) : std::move(status));
  };
  body_->Submit(std::move(command));
}

int64_t SqliteStore::incarnation() const { return body_->incarnation_; }

void SqliteStore::Backup(std::string path, DoneCallback done) {
  auto shared = std::make_shared<DoneCallback>(std::move(done));
  body_->Read(
      [path = std::move(path), shared](Body& body) {
        SqliteStatement copy = body.reader_->Query("VACUUM INTO ?");
        absl::Status copied = copy.BindText(path).Run();
        if (copied.ok()) copied = SyncFile(path);
        body.Post([shared, copied] { (*shared)(copied); });
      },
      [shared](absl::Status why) { (*shared)(std::move(why)); });
}

}  // namespace capstan::store
