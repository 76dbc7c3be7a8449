#ifndef CAPSTAN_LIBS_STORE_SQLITE_TABLES_H_
#define CAPSTAN_LIBS_STORE_SQLITE_TABLES_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/store/sqlite_connection.h"
#include "libs/store/sqlite_schema.h"
#include "libs/store/store.h"

namespace capstan::store {

// The store's semantics in SQL, over one connection:
//
//   history(seq, key, create_revision, version, lease, value)   every state of every key that is
//                      still kept; seq = revision << 20 | index, version 0 is a deletion
//   current(key, seq, lease)                                    the keys that are there now
//   leases(id, ttl_ns)
//   meta(name, number)                                          incarnation, compacted, next_lease;
//                                                               swept, from the first compaction on
//
// The functions that write must run within a transaction of the caller's, on the one writing
// connection; those that read, within a transaction that fixes what they see. Requests have passed
// txn_rules.h. For one thread at a time.
class SqliteTables {
 public:
  explicit SqliteTables(SqliteConnection* connection) : db_(connection) {}

  // Makes the tables, if need be with `incarnation`, and checks the schema version:
  // FAILED_PRECONDITION with SCHEMA_TOO_NEW or NOT_A_STORE. Not within a transaction.
  absl::Status Prepare(int64_t incarnation);

  // The file's schema, 0 if it is empty, without making anything: NOT_A_STORE, SCHEMA_TOO_NEW.
  absl::StatusOr<int64_t> CheckSchema();

  absl::StatusOr<int64_t> Revision();
  absl::StatusOr<int64_t> Meta(const char* name);
  absl::Status SetMeta(const char* name, int64_t number);

  // COMPACTED and FUTURE_REVISION as in Store::Range.
  absl::StatusOr<RangeResult> Range(const RangeRequest& request);

  // `result` is the transaction's own outcome (also COMPACTED, LEASE_NOT_FOUND…, after which
  // nothing has changed); the return value is the database's, after an error of which the caller
  // must roll back. `revision` is the newest one, raised by a change; events are appended to
  // `events`.
  absl::Status Apply(const TxnRequest& request, int64_t* revision,
                     absl::StatusOr<TxnResult>* result, std::vector<WatchEvent>* events);

  // As MvccMap::Events, up to the newest revision.
  absl::StatusOr<WatchBatch> Events(const std::string& key, const std::string& end, int64_t from,
                                    size_t max_bytes);

  absl::StatusOr<LeaseId> AddLease(absl::Duration ttl);
  // Deletes the lease and its keys; false if it does not exist.
  absl::StatusOr<bool> DropLease(LeaseId lease, int64_t* revision, std::vector<WatchEvent>* events);
  absl::StatusOr<std::vector<std::pair<LeaseId, absl::Duration>>> Leases();

  // Where a compaction to `compacted` begins: behind the last one that was ended. 0 if it is done.
  absl::StatusOr<int64_t> FirstUnswept(int64_t compacted);
  // Removes what no range at or after `compacted` sees, as far as up to `rows` states from `from_seq`
  // on say; returns where to go on, 0 when done. So a compaction costs what has changed since the
  // one before, not what is stored.
  absl::StatusOr<int64_t> CompactSome(int64_t compacted, int64_t from_seq, int64_t rows);

 private:
  struct Found {
    bool there = false;
    KeyValue kv;
  };

  // A change of the tables above is one step more.
  SqliteSchema Schema(int64_t incarnation);
  absl::StatusOr<Found> Get(const std::string& key);
  absl::StatusOr<RangeResult> RangeAt(const RangeRequest& request, int64_t revision, bool newest);
  absl::StatusOr<bool> LeaseExists(LeaseId lease);
  absl::Status PutOne(const Put& put, int64_t revision, int64_t index,
                      std::vector<WatchEvent>* events);
  absl::StatusOr<int64_t> DeleteRange(const Delete& gone, int64_t revision, int64_t first_index,
                                      std::vector<WatchEvent>* events);
  absl::Status DeleteOne(const std::string& key, int64_t revision, int64_t index,
                         std::vector<WatchEvent>* events);

  SqliteConnection* const db_;
};

}  // namespace capstan::store

#endif  // CAPSTAN_LIBS_STORE_SQLITE_TABLES_H_
