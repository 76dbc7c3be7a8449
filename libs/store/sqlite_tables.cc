#include "libs/store/sqlite_tables.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "libs/store/txn_rules.h"

namespace capstan::store {
namespace {

// "CAPS": marks the file as ours.
constexpr int32_t kApplicationId = 0x43415053;
// Changes of one revision are numbered below the revision.
constexpr int kIndexBits = 20;
constexpr int64_t kMaxChanges = int64_t{1} << kIndexBits;

int64_t FirstSeq(int64_t revision) { return revision << kIndexBits; }
int64_t RevisionOf(int64_t seq) { return seq >> kIndexBits; }

constexpr char kCreateTables[] = R"(
CREATE TABLE meta(name TEXT PRIMARY KEY, number INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE history(
  seq INTEGER PRIMARY KEY,
  key BLOB NOT NULL,
  create_revision INTEGER NOT NULL,
  version INTEGER NOT NULL,
  lease INTEGER NOT NULL,
  value BLOB NOT NULL);
CREATE INDEX history_key ON history(key, seq);
CREATE TABLE current(key BLOB PRIMARY KEY, seq INTEGER NOT NULL, lease INTEGER NOT NULL)
  WITHOUT ROWID;
CREATE INDEX current_lease ON current(lease) WHERE lease != 0;
CREATE TABLE leases(id INTEGER PRIMARY KEY, ttl_ns INTEGER NOT NULL);
INSERT INTO meta VALUES ('compacted', 1), ('next_lease', 1);
)";

// Columns: seq, key, create_revision, version, lease, value.
KeyValue RowToKeyValue(const SqliteStatement& row) {
  KeyValue kv;
  kv.mod_revision = RevisionOf(row.Int(0));
  kv.key = row.Blob(1);
  kv.create_revision = row.Int(2);
  kv.version = row.Int(3);
  kv.lease = row.Int(4);
  kv.value = row.Blob(5);
  return kv;
}

WatchEvent DeleteEvent(const std::string& key, int64_t revision) {
  WatchEvent event;
  event.type = WatchEvent::Type::kDelete;
  event.kv.key = key;
  event.kv.mod_revision = revision;
  return event;
}

absl::Status CheckRevision(int64_t wanted, int64_t revision, int64_t compacted) {
  if (wanted > revision) return FutureError(wanted, revision);
  if (wanted != 0 && wanted < compacted) return CompactedError(wanted, compacted);
  return absl::OkStatus();
}

}  // namespace

SqliteSchema SqliteTables::Schema(int64_t incarnation) {
  SqliteSchema schema;
  schema.kind = "a Capstan store";
  schema.foreign_reason = "NOT_A_STORE";
  schema.application_id = kApplicationId;
  schema.steps = {[this, incarnation](SqliteConnection* connection) {
    const absl::Status made = connection->Execute(kCreateTables);
    return made.ok() ? SetMeta("incarnation", incarnation) : made;
  }};
  return schema;
}

absl::StatusOr<int64_t> SqliteTables::CheckSchema() {
  return CheckSqliteSchema(db_, Schema(/*incarnation=*/0));
}

absl::Status SqliteTables::Prepare(int64_t incarnation) {
  return PrepareSqliteSchema(db_, Schema(incarnation));
}

absl::StatusOr<int64_t> SqliteTables::Revision() {
  CAPSTAN_ASSIGN_OR_RETURN(const int64_t seq,
                           db_->Number("SELECT ifnull(max(seq), 0) FROM history"));
  return std::max<int64_t>(1, RevisionOf(seq));
}

absl::StatusOr<int64_t> SqliteTables::Meta(const char* name) {
  SqliteStatement query = db_->Query("SELECT number FROM meta WHERE name = ?");
  query.BindText(name);
  if (query.Next()) return query.Int(0);
  if (!query.status().ok()) return query.status();
  return status::Error(absl::StatusCode::kDataLoss, "STORE_CORRUPT",
                       absl::StrCat("the store lacks the number '", name, "'"));
}

absl::Status SqliteTables::SetMeta(const char* name, int64_t number) {
  return db_->Query("INSERT OR REPLACE INTO meta VALUES (?, ?)").BindText(name).Bind(number).Run();
}

absl::StatusOr<SqliteTables::Found> SqliteTables::Get(const std::string& key) {
  SqliteStatement row = db_->Query(
      "SELECT h.seq, h.key, h.create_revision, h.version, h.lease, h.value"
      " FROM current c JOIN history h ON h.seq = c.seq WHERE c.key = ?");
  row.BindBlob(key);
  Found found;
  if (row.Next()) {
    found.there = true;
    found.kv = RowToKeyValue(row);
  }
  if (!row.status().ok()) return row.status();
  return found;
}

absl::StatusOr<RangeResult> SqliteTables::RangeAt(const RangeRequest& request, int64_t revision,
                                                  bool newest) {
  RangeResult result;
  result.revision = revision;
  const std::string end = request.end.empty() ? request.key + '\0' : request.end;
  const int64_t limit = EffectiveLimit(request.limit);
  const auto run = [&](SqliteStatement row) {
    while (row.Next()) {
      if (static_cast<int64_t>(result.kvs.size()) == limit) {
        result.more = true;
        break;
      }
      result.kvs.push_back(RowToKeyValue(row));
    }
    return row.status();
  };
  if (newest) {
    SqliteStatement row = db_->Query(
        "SELECT h.seq, h.key, h.create_revision, h.version, h.lease, h.value"
        " FROM current c CROSS JOIN history h ON h.seq = c.seq"
        " WHERE c.key >= ? AND c.key < ? ORDER BY c.key LIMIT ?");
    row.BindBlob(request.key).BindBlob(end).Bind(limit + 1);
    CAPSTAN_RETURN_IF_ERROR(run(std::move(row)));
    return result;
  }
  // In the order of the index: what is grouped by key first would be all of the range for each page.
  SqliteStatement row = db_->Query(
      "SELECT seq, key, create_revision, version, lease, value"
      " FROM history AS h INDEXED BY history_key"
      " WHERE key >= ?1 AND key < ?2 AND seq < ?3 AND version > 0 AND NOT EXISTS"
      " (SELECT 1 FROM history AS later"
      "  WHERE later.key = h.key AND later.seq > h.seq AND later.seq < ?3)"
      " ORDER BY key LIMIT ?4");
  row.BindBlob(request.key).BindBlob(end).Bind(FirstSeq(revision + 1)).Bind(limit + 1);
  CAPSTAN_RETURN_IF_ERROR(run(std::move(row)));
  return result;
}

absl::StatusOr<RangeResult> SqliteTables::Range(const RangeRequest& request) {
  CAPSTAN_ASSIGN_OR_RETURN(const int64_t revision, Revision());
  CAPSTAN_ASSIGN_OR_RETURN(const int64_t compacted, Meta("compacted"));
  CAPSTAN_RETURN_IF_ERROR(CheckRevision(request.revision, revision, compacted));
  const bool newest = request.revision == 0 || request.revision == revision;
  return RangeAt(request, newest ? revision : request.revision, newest);
}

absl::StatusOr<bool> SqliteTables::LeaseExists(LeaseId lease) {
  SqliteStatement query = db_->Query("SELECT 1 FROM leases WHERE id = ?");
  query.Bind(lease);
  const bool there = query.Next();
  if (!query.status().ok()) return query.status();
  return there;
}

absl::Status SqliteTables::PutOne(const Put& put, int64_t revision, int64_t index,
                                  std::vector<WatchEvent>* events) {
  CAPSTAN_ASSIGN_OR_RETURN(const Found old, Get(put.key));
  WatchEvent event;
  event.kv.key = put.key;
  event.kv.value = put.value;
  event.kv.mod_revision = revision;
  event.kv.create_revision = old.there ? old.kv.create_revision : revision;
  event.kv.version = old.there ? old.kv.version + 1 : 1;
  event.kv.lease = put.lease;
  const int64_t seq = FirstSeq(revision) + index;
  CAPSTAN_RETURN_IF_ERROR(db_->Query("INSERT INTO history VALUES (?, ?, ?, ?, ?, ?)")
                              .Bind(seq)
                              .BindBlob(put.key)
                              .Bind(event.kv.create_revision)
                              .Bind(event.kv.version)
                              .Bind(put.lease)
                              .BindBlob(put.value)
                              .Run());
  events->push_back(std::move(event));
  return db_->Query("INSERT OR REPLACE INTO current VALUES (?, ?, ?)")
      .BindBlob(put.key)
      .Bind(seq)
      .Bind(put.lease)
      .Run();
}

absl::Status SqliteTables::DeleteOne(const std::string& key, int64_t revision, int64_t index,
                                     std::vector<WatchEvent>* events) {
  CAPSTAN_RETURN_IF_ERROR(db_->Query("INSERT INTO history VALUES (?, ?, 0, 0, 0, x'')")
                              .Bind(FirstSeq(revision) + index)
                              .BindBlob(key)
                              .Run());
  events->push_back(DeleteEvent(key, revision));
  return db_->Query("DELETE FROM current WHERE key = ?").BindBlob(key).Run();
}

absl::StatusOr<int64_t> SqliteTables::DeleteRange(const Delete& gone, int64_t revision,
                                                  int64_t first_index,
                                                  std::vector<WatchEvent>* events) {
  std::vector<std::string> keys;
  {
    const std::string end = gone.end.empty() ? gone.key + '\0' : gone.end;
    SqliteStatement row =
        db_->Query("SELECT key FROM current WHERE key >= ? AND key < ? ORDER BY key");
    row.BindBlob(gone.key).BindBlob(end);
    while (row.Next()) keys.push_back(row.Blob(0));
    CAPSTAN_RETURN_IF_ERROR(row.status());
  }
  if (first_index + static_cast<int64_t>(keys.size()) >= kMaxChanges) {
    return absl::ResourceExhaustedError("a transaction changes more than a million keys");
  }
  int64_t index = first_index;
  for (const std::string& key : keys) {
    CAPSTAN_RETURN_IF_ERROR(DeleteOne(key, revision, index++, events));
  }
  return static_cast<int64_t>(keys.size());
}

absl::Status SqliteTables::Apply(const TxnRequest& request, int64_t* revision,
                                 absl::StatusOr<TxnResult>* result,
                                 std::vector<WatchEvent>* events) {
  TxnResult made;
  made.succeeded = true;
  for (const Compare& compare : request.compares) {
    CAPSTAN_ASSIGN_OR_RETURN(const Found found, Get(compare.key));
    if (!Holds(compare, found.there ? &found.kv : nullptr)) made.succeeded = false;
  }
  const std::vector<Op>& ops = made.succeeded ? request.then : request.otherwise;
  // Everything that can fail by itself is looked at before anything is done.
  for (const Op& op : ops) {
    if (const auto* put = std::get_if<Put>(&op); put != nullptr && put->lease != 0) {
      CAPSTAN_ASSIGN_OR_RETURN(const bool exists, LeaseExists(put->lease));
      if (!exists) {
        *result = NoLeaseError(put->lease);
        return absl::OkStatus();
      }
    } else if (const auto* range = std::get_if<RangeRequest>(&op)) {
      CAPSTAN_ASSIGN_OR_RETURN(const int64_t compacted, Meta("compacted"));
      const absl::Status checked = CheckRevision(range->revision, *revision, compacted);
      if (!checked.ok()) {
        *result = checked;
        return absl::OkStatus();
      }
    }
  }
  const int64_t next = *revision + 1;
  int64_t changes = 0;
  for (const Op& op : ops) {
    if (const auto* put = std::get_if<Put>(&op)) {
      CAPSTAN_RETURN_IF_ERROR(PutOne(*put, next, changes++, events));
    } else if (const auto* gone = std::get_if<Delete>(&op)) {
      CAPSTAN_ASSIGN_OR_RETURN(const int64_t deleted, DeleteRange(*gone, next, changes, events));
      changes += deleted;
      made.deleted += deleted;
    } else {
      const auto& range = std::get<RangeRequest>(op);
      CAPSTAN_ASSIGN_OR_RETURN(
          RangeResult found,
          RangeAt(range, range.revision == 0 ? next : range.revision, range.revision == 0));
      made.ranges.push_back(std::move(found));
    }
  }
  if (changes > 0) *revision = next;
  for (RangeResult& range : made.ranges) range.revision = std::min(range.revision, *revision);
  made.revision = *revision;
  *result = std::move(made);
  return absl::OkStatus();
}

absl::StatusOr<WatchBatch> SqliteTables::Events(const std::string& key, const std::string& end,
                                                int64_t from, size_t max_bytes) {
  CAPSTAN_ASSIGN_OR_RETURN(const int64_t revision, Revision());
  CAPSTAN_ASSIGN_OR_RETURN(const int64_t compacted, Meta("compacted"));
  if (from < compacted) return CompactedError(from, compacted);
  WatchBatch batch;
  batch.revision = std::max(from - 1, revision);
  size_t bytes = 0;
  const std::string bound = end.empty() ? key + '\0' : end;
  SqliteStatement row = db_->Query(
      "SELECT seq, key, create_revision, version, lease, value FROM history"
      " WHERE seq >= ? AND key >= ? AND key < ? ORDER BY seq");
  row.Bind(FirstSeq(from)).BindBlob(key).BindBlob(bound);
  while (row.Next()) {
    KeyValue kv = RowToKeyValue(row);
    // Whole revisions only.
    if (bytes > max_bytes && kv.mod_revision != batch.events.back().kv.mod_revision) {
      batch.revision = kv.mod_revision - 1;
      break;
    }
    bytes += sizeof(kv) + kv.key.size() + kv.value.size();
    if (kv.version == 0) {
      batch.events.push_back(DeleteEvent(kv.key, kv.mod_revision));
    } else {
      batch.events.push_back(WatchEvent{WatchEvent::Type::kPut, std::move(kv)});
    }
  }
  CAPSTAN_RETURN_IF_ERROR(row.status());
  return batch;
}

absl::StatusOr<LeaseId> SqliteTables::AddLease(absl::Duration ttl) {
  // Not SQLite's own numbering, which may hand out the number of a lease that is gone.
  CAPSTAN_ASSIGN_OR_RETURN(const LeaseId lease, Meta("next_lease"));
  CAPSTAN_RETURN_IF_ERROR(SetMeta("next_lease", lease + 1));
  CAPSTAN_RETURN_IF_ERROR(db_->Query("INSERT INTO leases VALUES (?, ?)")
                              .Bind(lease)
                              .Bind(absl::ToInt64Nanoseconds(ttl))
                              .Run());
  return lease;
}

absl::StatusOr<bool> SqliteTables::DropLease(LeaseId lease, int64_t* revision,
                                             std::vector<WatchEvent>* events) {
  CAPSTAN_ASSIGN_OR_RETURN(const bool exists, LeaseExists(lease));
  if (!exists) return false;
  std::vector<std::string> keys;
  {
    SqliteStatement row = db_->Query("SELECT key FROM current WHERE lease != 0 AND lease = ?");
    row.Bind(lease);
    while (row.Next()) keys.push_back(row.Blob(0));
    CAPSTAN_RETURN_IF_ERROR(row.status());
  }
  std::sort(keys.begin(), keys.end());
  int64_t index = 0;
  for (const std::string& key : keys) {
    CAPSTAN_RETURN_IF_ERROR(DeleteOne(key, *revision + 1, index++, events));
  }
  if (index > 0) ++*revision;
  CAPSTAN_RETURN_IF_ERROR(db_->Query("DELETE FROM leases WHERE id = ?").Bind(lease).Run());
  return true;
}

absl::StatusOr<std::vector<std::pair<LeaseId, absl::Duration>>> SqliteTables::Leases() {
  std::vector<std::pair<LeaseId, absl::Duration>> leases;
  SqliteStatement row = db_->Query("SELECT id, ttl_ns FROM leases");
  while (row.Next()) leases.emplace_back(row.Int(0), absl::Nanoseconds(row.Int(1)));
  CAPSTAN_RETURN_IF_ERROR(row.status());
  return leases;
}

absl::StatusOr<int64_t> SqliteTables::FirstUnswept(int64_t compacted) {
  SqliteStatement query = db_->Query("SELECT number FROM meta WHERE name = 'swept'");
  const int64_t swept = query.Next() ? query.Int(0) : 0;
  if (!query.status().ok()) return query.status();
  // A store is at revision 1 before anything is in it.
  if (std::max<int64_t>(1, swept) >= compacted) return 0;
  return std::max<int64_t>(1, FirstSeq(swept));
}

absl::StatusOr<int64_t> SqliteTables::CompactSome(int64_t compacted, int64_t from_seq,
                                                  int64_t rows) {
  const int64_t bound = FirstSeq(compacted + 1);
  int64_t until = bound;
  {
    SqliteStatement row = db_->Query(
        "SELECT seq FROM history WHERE seq >= ? AND seq < ? ORDER BY seq LIMIT 1 OFFSET ?");
    row.Bind(from_seq).Bind(bound).Bind(rows);
    if (row.Next()) until = row.Int(0);
    CAPSTAN_RETURN_IF_ERROR(row.status());
  }
  // What is seen at `compacted` lets what was before it go; and a deletion goes anyway, but that of
  // the revision itself, which a watch may still be told of.
  CAPSTAN_RETURN_IF_ERROR(db_->Query("DELETE FROM history WHERE seq IN"
                                     " (SELECT older.seq FROM history AS later"
                                     "  CROSS JOIN history AS older INDEXED BY history_key"
                                     "  ON older.key = later.key AND older.seq < later.seq"
                                     "  WHERE later.seq >= ? AND later.seq < ?)")
                              .Bind(from_seq)
                              .Bind(until)
                              .Run());
  CAPSTAN_RETURN_IF_ERROR(
      db_->Query("DELETE FROM history WHERE seq >= ? AND seq < ? AND version = 0")
          .Bind(from_seq)
          .Bind(std::min(until, FirstSeq(compacted)))
          .Run());
  if (until != bound) return until;
  CAPSTAN_RETURN_IF_ERROR(SetMeta("swept", compacted));
  return 0;
}

}  // namespace capstan::store
