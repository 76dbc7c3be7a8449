#include "services/telemetry/adapters/open_streams.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "proto/capstan/telemetry/v1/stream.pb.h"
#include "services/telemetry/core/records.pb.h"
#include "services/telemetry/core/stream_rules.h"

namespace capstan::telemetry {
namespace {

namespace fs = ::std::filesystem;

absl::Status UnparsableError(const std::string& stream) {
  return status::Error(absl::StatusCode::kDataLoss, "STREAM_DAMAGED",
                       absl::StrCat("records of ", stream, " can't be parsed"));
}

// False if these are no record.
bool Advance(ProducerIndex& producers, absl::string_view bytes) {
  v1::Record record;
  if (!record.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return false;
  producers.Advance(record.producer(), record.key(), record.producer_sequence());
  return true;
}

}  // namespace

StreamExtent OpenStream::Extent() const {
  if (is_small()) return {1, committed_offset};
  // In this order: a drop in between must not put the beginning behind the end.
  const int64_t next = log->next_offset();
  return {std::min(log->first_offset(), next), next};
}

OpenStreams::OpenStreams(Options options, SmallStreams* small, const log::Logger* logger)
    : options_(std::move(options)), small_(small), logger_(logger) {}

bool OpenStreams::MayBeSmall(const std::string& stream) const {
  return options_.small_bytes > 0 && stream != kAuditStream;
}

void OpenStreams::MakeRoom() {
  while (open_.size() >= options_.max_open) {
    auto oldest = open_.end();
    for (auto candidate = open_.begin(); candidate != open_.end(); ++candidate) {
      // One that a thread works with stays.
      if (candidate->second.use_count() > 1) continue;
      if (oldest == open_.end() || candidate->second->last_used < oldest->second->last_used) {
        oldest = candidate;
      }
    }
    if (oldest == open_.end()) return;
    // All of it is on disk.
    if (keep_newest_.count(oldest->first) > 0) extents_[oldest->first] = oldest->second->Extent();
    open_.erase(oldest);
  }
}

absl::StatusOr<std::shared_ptr<OpenStream>> OpenStreams::Find(const std::string& stream,
                                                              bool make) {
  absl::MutexLock lock(&mutex_);
  std::shared_ptr<OpenStream> found;
  const auto it = open_.find(stream);
  if (it != open_.end()) {
    found = it->second;
  } else {
    CAPSTAN_ASSIGN_OR_RETURN(found, OpenOne(stream, make));
    if (found == nullptr) return found;
    MakeRoom();
    extents_.erase(stream);
    open_[stream] = found;
  }
  found->last_used = ++uses_;
  if (make && found->has_rows) {
    small_->Remove(stream);
    found->has_rows = false;
  }
  return found;
}

absl::StatusOr<std::shared_ptr<OpenStream>> OpenStreams::OpenOne(const std::string& stream,
                                                                 bool make) {
  auto small = std::make_shared<OpenStream>();
  bool readable = true;
  CAPSTAN_ASSIGN_OR_RETURN(const SmallStreams::Extent extent,
                           small_->Load(stream, [&](absl::string_view payload) {
                             readable &= Advance(small->producers, payload);
                           }));
  std::error_code error;
  const bool has_folder = fs::exists(FolderOf(stream), error);
  const bool has_rows = extent.next_offset > 1;
  if (has_folder || (!has_rows && make && !MayBeSmall(stream))) {
    CAPSTAN_ASSIGN_OR_RETURN(std::shared_ptr<OpenStream> log, OpenLog(stream));
    if (log->Extent().next >= extent.next_offset) {
      log->has_rows = has_rows;
      return log;
    }
  }
  if (!has_rows && !make) return std::shared_ptr<OpenStream>();
  if (extent.damaged_records > 0) {
    logger_->Error("records that were on disk can't be read any more",
                   {{"stream", stream}, {"records", extent.damaged_records}});
  }
  if (!readable) return UnparsableError(stream);
  small->committed_offset = small->next_offset = extent.next_offset;
  small->bytes = extent.bytes;
  small->damaged = extent.damaged_records > 0;
  return small;
}

absl::StatusOr<std::shared_ptr<OpenStream>> OpenStreams::OpenLog(const std::string& stream) {
  auto opened = std::make_shared<OpenStream>();
  bool readable = true;
  segment_log::SegmentLog::Repair repair;
  CAPSTAN_ASSIGN_OR_RETURN(
      opened->log,
      segment_log::SegmentLog::Open(
          FolderOf(stream), {.segment_bytes = options_.segment_bytes},
          [&](absl::string_view bytes) {
            core::StreamHeader header;
            readable &= header.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
            opened->producers.Load(header);
          },
          [&](int64_t, absl::string_view bytes) { readable &= Advance(opened->producers, bytes); },
          &repair));
  if (repair.torn_bytes > 0) {
    logger_->Warning("cut an unfinished append off a stream",
                     {{"stream", stream}, {"bytes", repair.torn_bytes}});
  }
  if (repair.damaged_records > 0) {
    logger_->Error("records that were on disk can't be read any more",
                   {{"stream", stream}, {"records", repair.damaged_records}});
  }
  if (!readable) return UnparsableError(stream);
  return opened;
}

absl::StatusOr<std::unique_ptr<segment_log::SegmentLog>> OpenStreams::CopyToLog(
    const std::string& stream) {
  CAPSTAN_ASSIGN_OR_RETURN(const std::vector<std::string> payloads, small_->ReadForMove(stream));
  segment_log::SegmentLog::Repair repair;
  CAPSTAN_ASSIGN_OR_RETURN(
      auto log, segment_log::SegmentLog::Open(
                    FolderOf(stream), {.segment_bytes = options_.segment_bytes},
                    [](absl::string_view) {}, [](int64_t, absl::string_view) {}, &repair));
  if (payloads.empty()) return log;
  const auto header = [] { return ProducerIndex().ToHeader().SerializeAsString(); };
  CAPSTAN_RETURN_IF_ERROR(log->Append(payloads, header).status());
  CAPSTAN_RETURN_IF_ERROR(log->Sync());
  return log;
}

absl::StatusOr<std::shared_ptr<OpenStream>> OpenStreams::Move(const std::string& stream,
                                                              const OpenStream& small) {
  std::error_code error;
  // What a crash has left of the same.
  fs::remove_all(FolderOf(stream), error);
  if (error) return absl::ErrnoToStatus(error.value(), absl::StrCat("removing ", stream));
  auto log = CopyToLog(stream);
  if (!log.ok()) {
    // It holds less than the rows; and the disk may be full.
    fs::remove_all(FolderOf(stream), error);
    return log.status();
  }
  small_->Remove(stream);
  auto moved = std::make_shared<OpenStream>();
  moved->log = *std::move(log);
  moved->producers.Load(small.producers.ToHeader());
  absl::MutexLock lock(&mutex_);
  moved->last_used = ++uses_;
  open_[stream] = moved;
  return moved;
}

void OpenStreams::Forget(const std::string& stream) {
  absl::MutexLock lock(&mutex_);
  open_.erase(stream);
}

absl::StatusOr<StreamExtent> OpenStreams::FindExtent(const std::string& stream) {
  {
    absl::MutexLock lock(&mutex_);
    const auto it = extents_.find(stream);
    if (it != extents_.end()) return it->second;
  }
  CAPSTAN_ASSIGN_OR_RETURN(const std::shared_ptr<OpenStream> open, Find(stream, /*make=*/false));
  return open == nullptr ? StreamExtent() : open->Extent();
}

void OpenStreams::KeepNewest(std::set<std::string> streams) {
  absl::MutexLock lock(&mutex_);
  keep_newest_ = std::move(streams);
  for (auto it = extents_.begin(); it != extents_.end();) {
    it = keep_newest_.count(it->first) > 0 ? std::next(it) : extents_.erase(it);
  }
}

std::set<std::string> OpenStreams::kept() const {
  absl::MutexLock lock(&mutex_);
  return keep_newest_;
}

void OpenStreams::Drop(const std::vector<std::string>& streams,
                       absl::FunctionRef<void(const std::vector<std::string>& closed)> drop) {
  std::vector<std::string> closed;
  absl::MutexLock lock(&mutex_);
  for (const std::string& stream : streams) {
    const auto it = open_.find(stream);
    if (keep_newest_.count(stream) > 0) continue;
    if (it != open_.end() && it->second.use_count() > 1) continue;
    if (it != open_.end()) open_.erase(it);
    closed.push_back(stream);
  }
  drop(closed);
}

}  // namespace capstan::telemetry
