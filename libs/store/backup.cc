#include "libs/store/backup.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "libs/store/backup_file.h"
#include "libs/time/proto_time.h"

namespace capstan::store {
namespace {

using backup::v1::BackupHeader;
using backup::v1::BackupRecord;

// What a page should have at most, and keys of the first one, before sizes are known.
constexpr int64_t kPageBytes = 4 << 20;
constexpr int64_t kFirstPageKeys = 16;
// Of one transaction of a restore; together below what a transaction takes.
constexpr size_t kBatchOps = 100;
constexpr size_t kBatchBytes = 512 << 10;

std::string PrefixOf(const std::string& service, int schema) {
  return absl::StrCat("/capstan/", service, "/v", schema, "/");
}

absl::Status CheckSchema(BackupSource* source, const std::string& service, int schema,
                         int64_t revision) {
  const std::string versions = absl::StrCat("/capstan/", service, "/v");
  const std::string known = PrefixOf(service, schema);
  for (const auto& [from, to] :
       {std::make_pair(versions, known), std::make_pair(PrefixEnd(known), PrefixEnd(versions))}) {
    CAPSTAN_ASSIGN_OR_RETURN(
        const RangeResult strange,
        source->Range({.key = from, .end = to, .limit = 1, .revision = revision}));
    if (strange.kvs.empty()) continue;
    return status::Error(absl::StatusCode::kFailedPrecondition, "SCHEMA_TOO_NEW",
                         absl::StrCat("the store has the key ", strange.kvs[0].key,
                                      "; this program knows keys of schema ", schema, " alone"),
                         {{"key", strange.kvs[0].key}});
  }
  return absl::OkStatus();
}

absl::Status CheckHeader(const BackupHeader& header, const RestoreOptions& options) {
  if (header.service() != options.service) {
    return status::Error(absl::StatusCode::kFailedPrecondition, kReasonForeignBackup,
                         absl::StrCat("the backup is of the service '", header.service(),
                                      "', not of '", options.service, "'"),
                         {{"found", header.service()}, {"expected", options.service}});
  }
  if (header.schema() > options.schema) {
    return status::Error(
        absl::StatusCode::kFailedPrecondition, kReasonBackupTooNew,
        absl::StrCat("the backup's keys have schema ", header.schema(),
                     "; this program knows up to ", options.schema, ": use the newer one"),
        {{"schema", absl::StrCat(header.schema())}, {"known", absl::StrCat(options.schema)}});
  }
  return absl::OkStatus();
}

// Collects puts to transactions.
class Batch {
 public:
  explicit Batch(RestoreTarget* target) : target_(target) {}

  absl::Status Add(std::string key, std::string value) {
    const size_t size = key.size() + value.size();
    if (!puts_.empty() && (puts_.size() == kBatchOps || bytes_ + size > kBatchBytes)) {
      CAPSTAN_RETURN_IF_ERROR(Write());
    }
    bytes_ += size;
    puts_.push_back(Put{std::move(key), std::move(value)});
    return absl::OkStatus();
  }
  absl::Status Write() {
    if (puts_.empty()) return absl::OkStatus();
    bytes_ = 0;
    return target_->Write(std::exchange(puts_, {}));
  }

 private:
  RestoreTarget* const target_;
  std::vector<Put> puts_;
  size_t bytes_ = 0;
};

}  // namespace

absl::StatusOr<int64_t> ForEachRecord(
    BackupSource* source, const std::string& service, int schema,
    absl::FunctionRef<absl::Status(int64_t revision, const KeyValue&)> take) {
  const std::string prefix = PrefixOf(service, schema);
  RangeRequest page{.key = prefix, .end = PrefixEnd(prefix), .limit = kFirstPageKeys};
  while (true) {
    CAPSTAN_ASSIGN_OR_RETURN(const RangeResult found, source->Range(page));
    if (page.revision == 0) {
      CAPSTAN_RETURN_IF_ERROR(CheckSchema(source, service, schema, found.revision));
    }
    int64_t bytes = 1;
    for (const KeyValue& kv : found.kvs) {
      bytes += static_cast<int64_t>(kv.key.size() + kv.value.size());
      CAPSTAN_RETURN_IF_ERROR(take(found.revision, kv));
    }
    if (!found.more) return found.revision;
    page.revision = found.revision;
    page.key = found.kvs.back().key + '\0';
    const int64_t fitting = kPageBytes * static_cast<int64_t>(found.kvs.size()) / bytes;
    page.limit = std::max<int64_t>(1, std::min({fitting, page.limit * 4, kDefaultRangeLimit}));
  }
}

absl::StatusOr<BackupHeader> WriteBackup(BackupSource* source, const BackupOptions& options) {
  absl::Status last;
  for (int attempt = 0; attempt < options.attempts; ++attempt) {
    BackupHeader header;
    header.set_service(options.service);
    header.set_schema(options.schema);
    header.set_store_incarnation(source->incarnation());
    *header.mutable_create_time() = ToProto(options.now);
    std::unique_ptr<BackupFileWriter> writer;
    int64_t records = 0;
    int64_t bytes = 0;
    const auto take = [&](int64_t revision, const KeyValue& kv) -> absl::Status {
      if (writer == nullptr) {
        header.set_revision(revision);
        CAPSTAN_ASSIGN_OR_RETURN(writer, BackupFileWriter::Create(options.path, header));
      }
      // What hangs on a lease belongs to a process, not to the service.
      if (kv.lease != 0) return absl::OkStatus();
      CAPSTAN_RETURN_IF_ERROR(writer->Add(kv.key, kv.value));
      ++records;
      bytes += static_cast<int64_t>(kv.key.size() + kv.value.size());
      if (options.progress != nullptr) options.progress(records, bytes);
      return absl::OkStatus();
    };
    const absl::StatusOr<int64_t> revision =
        ForEachRecord(source, options.service, options.schema, take);
    if (revision.ok()) {
      if (writer == nullptr) {
        header.set_revision(*revision);
        CAPSTAN_ASSIGN_OR_RETURN(writer, BackupFileWriter::Create(options.path, header));
      }
      return writer->Finish();
    }
    last = revision.status();
    if (status::Reason(last) != kReasonCompacted) break;
  }
  return status::Annotate(last, absl::StrCat("backing up ", options.service));
}

absl::StatusOr<RestoreResult> RestoreBackup(RestoreTarget* target, const RestoreOptions& options) {
  RestoreResult result;
  const auto check = [&](const BackupHeader& header) { return CheckHeader(header, options); };
  CAPSTAN_ASSIGN_OR_RETURN(
      result.header,
      ReadBackupFile(options.path, check, [](const BackupRecord&) { return absl::OkStatus(); }));
  CAPSTAN_ASSIGN_OR_RETURN(const RestoreTarget::State state, target->Inspect());
  if (!state.empty && !state.unfinished && !options.force) {
    return status::Error(absl::StatusCode::kFailedPrecondition, kReasonStoreNotEmpty,
                         absl::StrCat("the store of ", options.service,
                                      " is not empty: what it holds would be lost; say --force"),
                         {{"service", options.service}});
  }
  result.incarnation = std::max({result.header.store_incarnation() + 1, state.incarnation + 1,
                                 static_cast<int64_t>(absl::ToUnixSeconds(options.now))});
  CAPSTAN_RETURN_IF_ERROR(target->Begin());
  Batch batch(target);
  int64_t records = 0;
  int64_t bytes = 0;
  const auto write = [&](const BackupRecord& record) {
    std::string key = record.key();
    std::string value = record.value();
    if (options.rewrite != nullptr) options.rewrite(result.header, &key, &value);
    ++records;
    bytes += static_cast<int64_t>(key.size() + value.size());
    if (options.progress != nullptr) options.progress(records, bytes);
    return batch.Add(std::move(key), std::move(value));
  };
  // The sums are compared anew: a file that changed meanwhile is found out before the end.
  const auto same = [&](const BackupHeader& header) {
    return header.body_sha256() == result.header.body_sha256()
               ? absl::OkStatus()
               : status::Error(absl::StatusCode::kDataLoss, kReasonBackupCorrupt,
                               "the backup changed while it was read");
  };
  CAPSTAN_RETURN_IF_ERROR(ReadBackupFile(options.path, same, write).status());
  CAPSTAN_RETURN_IF_ERROR(batch.Write());
  CAPSTAN_RETURN_IF_ERROR(target->Finish(result.incarnation));
  return result;
}

}  // namespace capstan::store
