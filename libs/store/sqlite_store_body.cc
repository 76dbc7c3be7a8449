#include "libs/store/sqlite_store_body.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/crash_point/crash_point.h"
#include "libs/crash_point/points.h"
#include "libs/status/error.h"
#include "libs/store/sqlite_maintenance.h"
#include "libs/store/txn_rules.h"

namespace capstan::store {
namespace {

// Commands of one SQLite transaction: bounds how long the first of them waits for the last.
constexpr size_t kMaxGroup = 1024;
// Of one piece of history that a watch is fed.
constexpr size_t kWatchBatchBytes = 1 << 20;
constexpr int64_t kCompactRows = 2000;
constexpr absl::Duration kExpiryRetry = absl::Seconds(1);
// Of the file. Keys are spread over their indexes, which a writer reads before it changes them: the
// inner pages of those are to stay in memory, and some of the others.
constexpr int64_t kWriterCacheShare = 32;
constexpr int64_t kLeastWriterCache = 16 << 20;
constexpr int64_t kMostWriterCache = 64 << 20;
constexpr char kReaderCache[] = "PRAGMA cache_size = -16384";

absl::Status OverloadedError() {
  return status::WithRetryDelay(
      status::Error(absl::StatusCode::kResourceExhausted, "STORE_OVERLOADED",
                    "too many calls wait for the store"),
      absl::Milliseconds(100));
}

}  // namespace

absl::Status SqliteStore::Body::Open(const std::string& path) {
  CAPSTAN_ASSIGN_OR_RETURN(lock_, FileLock::Acquire(path + ".lock"));
  CAPSTAN_RETURN_IF_ERROR(CheckNoUnfinishedRestore(path));
  CAPSTAN_ASSIGN_OR_RETURN(writer_, SqliteConnection::Open(path, true, true));
  // A new store outranks whatever was here before and is lost; see DESIGN.md §4 on restores.
  const int64_t fresh = absl::ToUnixSeconds(strand_->clock().Read().wall);
  write_tables_ = std::make_unique<SqliteTables>(writer_.get());
  CAPSTAN_RETURN_IF_ERROR(writer_->Execute("PRAGMA auto_vacuum = INCREMENTAL"));
  CAPSTAN_RETURN_IF_ERROR(writer_->Execute("PRAGMA journal_mode = WAL"));
  CAPSTAN_RETURN_IF_ERROR(writer_->Execute("PRAGMA synchronous = FULL"));
  CAPSTAN_RETURN_IF_ERROR(writer_->Execute("PRAGMA journal_size_limit = 67108864"));
  CAPSTAN_RETURN_IF_ERROR(write_tables_->Prepare(std::max<int64_t>(1, fresh)));
  CAPSTAN_RETURN_IF_ERROR(SizeWriterCache());
  CAPSTAN_ASSIGN_OR_RETURN(reader_, SqliteConnection::Open(path, false, false));
  CAPSTAN_RETURN_IF_ERROR(reader_->Execute(kReaderCache));
  CAPSTAN_ASSIGN_OR_RETURN(checkpointer_, SqliteConnection::Open(path, true, false));
  writer_->OnCommit([this](int pages) { Logged(pages); });
  read_tables_ = std::make_unique<SqliteTables>(reader_.get());
  CAPSTAN_ASSIGN_OR_RETURN(incarnation_, write_tables_->Meta("incarnation"));
  CAPSTAN_ASSIGN_OR_RETURN(revision_, write_tables_->Revision());
  CAPSTAN_ASSIGN_OR_RETURN(compact_to_, write_tables_->Meta("compacted"));
  // A compaction that a crash cut off is done again from its start.
  CAPSTAN_ASSIGN_OR_RETURN(compact_seq_, write_tables_->FirstUnswept(compact_to_));
  watches_.Committed(revision_, {});
  CAPSTAN_ASSIGN_OR_RETURN(const auto leases, write_tables_->Leases());
  for (const auto& [lease, ttl] : leases) LeaseGranted(lease, ttl);
  return absl::OkStatus();
}

void SqliteStore::Body::Start() {
  write_thread_ = std::thread([this] { WriteLoop(); });
  read_thread_ = std::thread([this] { ReadLoop(); });
  checkpoint_thread_ = std::thread([this] { CheckpointLoop(); });
}

void SqliteStore::Body::Close() {
  {
    absl::MutexLock lock(&mutex_);
    closing_ = true;
    if (expiry_timer_ != 0) strand_->Cancel(expiry_timer_);
  }
  write_thread_.join();
  read_thread_.join();
  checkpoint_thread_.join();
  watches_.EndAll(ClosedError());
  reader_.reset();
  checkpointer_.reset();
  writer_.reset();
  lock_.reset();
}

void SqliteStore::Body::Submit(Command command) {
  absl::Status refusal;
  {
    absl::MutexLock lock(&mutex_);
    if (closing_) {
      refusal = ClosedError();
    } else if (!failed_.ok()) {
      refusal = failed_;
    } else if (commands_.size() >= options_.max_waiting) {
      refusal = OverloadedError();
    } else {
      commands_.push_back(std::move(command));
      return;
    }
  }
  Post([answer = std::move(command.answer), refusal]() mutable { answer(refusal); });
}

void SqliteStore::Body::Read(Reading reading, absl::AnyInvocable<void(absl::Status)> refuse) {
  absl::Status refusal;
  {
    absl::MutexLock lock(&mutex_);
    if (closing_) {
      refusal = ClosedError();
    } else if (!failed_.ok()) {
      refusal = failed_;
    } else if (readings_.size() >= options_.max_waiting) {
      refusal = OverloadedError();
    } else {
      readings_.emplace_back(std::move(reading), std::move(refuse));
      return;
    }
  }
  Post([refuse = std::move(refuse), refusal]() mutable { refuse(refusal); });
}

void SqliteStore::Body::WriteLoop() {
  while (true) {
    std::deque<Command> group;
    bool closing = false;
    {
      absl::MutexLock lock(&mutex_);
      const auto has_work = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return closing_ || !commands_.empty();
      };
      if (compact_seq_ == 0) mutex_.Await(absl::Condition(&has_work));
      closing = closing_;
      if (closing || !failed_.ok()) {
        group.swap(commands_);
      } else {
        while (!commands_.empty() && group.size() < kMaxGroup) {
          group.push_back(std::move(commands_.front()));
          commands_.pop_front();
        }
      }
      if (!closing && !failed_.ok()) {
        const absl::Status failed = failed_;
        compact_seq_ = 0;
        Post([group = std::make_shared<std::deque<Command>>(std::move(group)), failed] {
          for (Command& command : *group) command.answer(failed);
        });
        continue;
      }
    }
    if (closing) {
      Post([group = std::make_shared<std::deque<Command>>(std::move(group))] {
        for (Command& command : *group) command.answer(ClosedError());
      });
      return;
    }
    FinishCheckpoint();
    if (!group.empty()) RunGroup(std::move(group));
    if (compact_seq_ != 0) CompactStep();
  }
}

void SqliteStore::Body::Logged(int pages) {
  absl::MutexLock lock(&mutex_);
  // It has begun anew.
  if (pages < logged_pages_) copied_pages_ = 0;
  logged_pages_ = pages;
}

void SqliteStore::Body::CheckpointLoop() {
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      const auto is_due = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return closing_ || logged_pages_ - copied_pages_ >= options_.checkpoint_pages;
      };
      mutex_.Await(absl::Condition(&is_due));
      if (closing_) return;
    }
    const auto done = checkpointer_->Checkpoint();
    absl::MutexLock lock(&mutex_);
    // One that failed, or that a snapshot is in the way of, is tried again once there is as much
    // more: what it was to copy is safe in the log.
    copied_pages_ = logged_pages_;
    checkpoint_ended_ = done.ok();
  }
}

void SqliteStore::Body::FinishCheckpoint() {
  {
    absl::MutexLock lock(&mutex_);
    if (!std::exchange(checkpoint_ended_, false)) return;
  }
  // An error is met again by the next one.
  writer_->Checkpoint().status().IgnoreError();
  SizeWriterCache().IgnoreError();
}

absl::StatusOr<int64_t> SqliteStore::Body::UsedBytes() {
  CAPSTAN_ASSIGN_OR_RETURN(const int64_t pages, writer_->Number("PRAGMA page_count"));
  CAPSTAN_ASSIGN_OR_RETURN(const int64_t free_pages, writer_->Number("PRAGMA freelist_count"));
  CAPSTAN_ASSIGN_OR_RETURN(const int64_t page_size, writer_->Number("PRAGMA page_size"));
  return (pages - free_pages) * page_size;
}

bool SqliteStore::Body::OverQuota() {
  const auto used = UsedBytes();
  return used.ok() && *used >= options_.quota_bytes;
}

absl::Status SqliteStore::Body::SizeWriterCache() {
  CAPSTAN_ASSIGN_OR_RETURN(const int64_t used, UsedBytes());
  const int64_t bytes = std::clamp(used / kWriterCacheShare, kLeastWriterCache, kMostWriterCache);
  // A negative number is of KiB.
  return writer_->Execute(absl::StrCat("PRAGMA cache_size = -", bytes >> 10));
}

absl::Status SqliteStore::Body::CommitTogether(std::deque<Command>& group) {
  const int64_t revision_before = revision_;
  const int64_t compact_to_before = compact_to_;
  const int64_t compact_seq_before = compact_seq_;
  events_.clear();
  absl::Status status = writer_->Execute("BEGIN IMMEDIATE");
  for (Command& command : group) {
    if (status.ok()) status = command.apply(*this);
  }
  if (status.ok()) {
    CrashPoint(crash::kStoreBeforeCommit);
    status = writer_->Execute("COMMIT");
  }
  if (status.ok()) {
    CrashPoint(crash::kStoreCommitted);
    return status;
  }
  revision_ = revision_before;
  compact_to_ = compact_to_before;
  compact_seq_ = compact_seq_before;
  events_.clear();
  // Some errors have rolled back by themselves.
  if (sqlite3_get_autocommit(writer_->raw()) == 0) {
    const absl::Status rolled_back = writer_->Execute("ROLLBACK");
    if (!rolled_back.ok()) return rolled_back;
  }
  return status;
}

void SqliteStore::Body::RunGroup(std::deque<Command> group) {
  // Puts beyond the quota are refused, each by itself; the others go on.
  std::deque<Command> admitted;
  auto answers = std::make_shared<std::vector<std::pair<Command, absl::Status>>>();
  const bool over_quota = OverQuota();
  for (Command& command : group) {
    if (over_quota && command.puts) {
      answers->emplace_back(std::move(command), NoSpaceError("the quota is used up"));
    } else {
      admitted.push_back(std::move(command));
    }
  }
  absl::Status status = absl::OkStatus();
  if (!admitted.empty()) status = CommitTogether(admitted);
  if (status::Reason(status) == kReasonNoSpace && admitted.size() > 1) {
    // One by one, what only deletes may still fit.
    for (Command& command : admitted) {
      std::deque<Command> one;
      one.push_back(std::move(command));
      status = CommitTogether(one);
      if (status.ok()) watches_.Committed(revision_, events_);
      answers->emplace_back(std::move(one.front()), status);
      if (!status.ok() && status::Reason(status) != kReasonNoSpace) break;
    }
  } else {
    if (status.ok() && !admitted.empty()) watches_.Committed(revision_, events_);
    for (Command& command : admitted) answers->emplace_back(std::move(command), status);
  }
  if (!status.ok() && status::Reason(status) != kReasonNoSpace) {
    absl::MutexLock lock(&mutex_);
    failed_ = status::Annotate(status, "the store must be opened again");
  }
  Post([answers] {
    for (auto& [command, outcome] : *answers) {
      if (command.answer) command.answer(outcome);
    }
  });
  if (options_.keep_revisions > 0 && revision_ - compact_to_ > 2 * options_.keep_revisions) {
    Command compact;
    compact.apply = [target = revision_ - options_.keep_revisions](Body& body) {
      return target <= body.compact_to_ ? absl::OkStatus() : body.BeginCompaction(target);
    };
    compact.answer = [](absl::Status) {};
    Submit(std::move(compact));
  }
}

absl::Status SqliteStore::Body::BeginCompaction(int64_t revision) {
  CAPSTAN_RETURN_IF_ERROR(write_tables_->SetMeta("compacted", revision));
  CAPSTAN_ASSIGN_OR_RETURN(compact_seq_, write_tables_->FirstUnswept(revision));
  compact_to_ = revision;
  return absl::OkStatus();
}

void SqliteStore::Body::CompactStep() {
  std::deque<Command> step(1);
  int64_t next = 0;
  step[0].apply = [&next](Body& body) -> absl::Status {
    CAPSTAN_ASSIGN_OR_RETURN(
        next, body.write_tables_->CompactSome(body.compact_to_, body.compact_seq_, kCompactRows));
    return absl::OkStatus();
  };
  // An error leaves what was to go; the next compaction meets it again.
  compact_seq_ = CommitTogether(step).ok() ? next : 0;
  if (compact_seq_ == 0) writer_->Execute("PRAGMA incremental_vacuum(1000)").IgnoreError();
}

void SqliteStore::Body::ReadLoop() {
  while (true) {
    std::pair<Reading, absl::AnyInvocable<void(absl::Status)>> next;
    {
      absl::MutexLock lock(&mutex_);
      const auto has_work = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return closing_ || !readings_.empty();
      };
      mutex_.Await(absl::Condition(&has_work));
      if (closing_) {
        for (auto& [reading, refuse] : readings_) {
          Post([refuse = std::move(refuse)]() mutable { refuse(ClosedError()); });
        }
        readings_.clear();
        return;
      }
      next = std::move(readings_.front());
      readings_.pop_front();
    }
    next.first(*this);
  }
}

void SqliteStore::Body::CatchUp(const std::shared_ptr<SqliteWatches::Watcher>& watcher) {
  auto batch = InSnapshot([&] {
    return read_tables_->Events(watcher->request.key, watcher->request.end, watcher->next,
                                kWatchBatchBytes);
  });
  if (!batch.ok()) return watches_.End(watcher, batch.status());
  watcher->next = std::max(watcher->next, batch->revision + 1);
  if (!watches_.Send(watcher, *std::move(batch))) return;
  if (watches_.GoLive(watcher)) return;
  // The next piece is read once this one has been taken: a long history is neither piled up nor
  // does it keep ranges waiting.
  Post([self = shared_from_this(), watcher] {
    if (!watcher->cancelled) self->StartCatchUp(watcher);
  });
}

void SqliteStore::Body::StartCatchUp(const std::shared_ptr<SqliteWatches::Watcher>& watcher) {
  Read([watcher](Body& body) { body.CatchUp(watcher); },
       [self = shared_from_this(), watcher](absl::Status why) {
         self->watches_.End(watcher, std::move(why));
       });
}

void SqliteStore::Body::LeaseGranted(LeaseId lease, absl::Duration ttl) {
  absl::MutexLock lock(&mutex_);
  leases_[lease] = Lease{ttl, strand_->clock().Read().boot + ttl};
  ArmExpiry();
}

absl::StatusOr<absl::Duration> SqliteStore::Body::KeepAlive(LeaseId lease) {
  absl::MutexLock lock(&mutex_);
  if (closing_) return ClosedError();
  if (!failed_.ok()) return failed_;
  const auto it = leases_.find(lease);
  if (it == leases_.end() || it->second.expiring) return NoLeaseError(lease);
  it->second.expiry = strand_->clock().Read().boot + it->second.ttl;
  return it->second.ttl;
}

void SqliteStore::Body::LeaseDropped(LeaseId lease) {
  absl::MutexLock lock(&mutex_);
  leases_.erase(lease);
  ArmExpiry();
}

void SqliteStore::Body::ArmExpiry() {
  BootTime first = BootTime::InfiniteFuture();
  for (const auto& [lease, state] : leases_) {
    if (!state.expiring) first = std::min(first, state.expiry);
  }
  if (expiry_timer_ != 0) strand_->Cancel(std::exchange(expiry_timer_, 0));
  if (first == BootTime::InfiniteFuture() || closing_) return;
  expiry_timer_ = strand_->RunAt(first, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->Expire();
  });
}

void SqliteStore::Body::Expire() {
  std::vector<LeaseId> dead;
  {
    absl::MutexLock lock(&mutex_);
    expiry_timer_ = 0;
    if (closing_ || !failed_.ok()) return;
    const BootTime now = strand_->clock().Read().boot;
    for (auto& [lease, state] : leases_) {
      if (state.expiring || state.expiry > now) continue;
      state.expiring = true;
      dead.push_back(lease);
    }
    ArmExpiry();
  }
  for (const LeaseId lease : dead) SubmitExpiry(lease);
}

void SqliteStore::Body::SubmitExpiry(LeaseId lease) {
  Command drop;
  drop.apply = [lease](Body& body) {
    return body.write_tables_->DropLease(lease, &body.revision_, &body.events_).status();
  };
  drop.answer = [weak = weak_from_this(), lease](absl::Status status) {
    const auto self = weak.lock();
    if (!self) return;
    if (status.ok()) return self->LeaseDropped(lease);
    if (status.code() != absl::StatusCode::kResourceExhausted) return;
    // No room to delete, or too much waits: an expired lease must still go.
    self->strand_->RunAfter(kExpiryRetry, [weak, lease] {
      if (const auto later = weak.lock()) later->SubmitExpiry(lease);
    });
  };
  Submit(std::move(drop));
}

}  // namespace capstan::store
