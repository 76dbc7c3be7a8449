#include "services/data_loader/adapters/part_syncer.h"

#include <algorithm>
#include <utility>

#include "libs/crash_point/crash_point.h"
#include "libs/crash_point/points.h"
#include "libs/status/status_macros.h"

namespace capstan::data_loader {

PartSyncer::PartSyncer(content::PartJournal* journal, Limits limits,
                       absl::AnyInvocable<void(int64_t bytes)> noted)
    : journal_(journal), limits_(limits), noted_(std::move(noted)), thread_([this] { Loop(); }) {}

PartSyncer::~PartSyncer() { Finish().IgnoreError(); }

absl::Status PartSyncer::AwaitRoom() {
  absl::MutexLock lock(&mutex_);
  const auto room = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !status_.ok() ||
           (unsynced_bytes_ < limits_.unsynced_bytes && unsynced_parts_ < limits_.unsynced_parts);
  };
  mutex_.Await(absl::Condition(&room));
  return status_;
}

void PartSyncer::Add(CopiedPart part) {
  absl::MutexLock lock(&mutex_);
  if (!status_.ok()) return;
  unsynced_bytes_ += part.size;
  ++unsynced_parts_;
  copied_.push_back(std::move(part));
}

absl::Status PartSyncer::Finish() {
  {
    absl::MutexLock lock(&mutex_);
    finishing_ = true;
  }
  if (thread_.joinable()) thread_.join();
  absl::MutexLock lock(&mutex_);
  return status_;
}

void PartSyncer::Loop() {
  const auto some = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return finishing_ || !copied_.empty();
  };
  while (true) {
    std::vector<CopiedPart> group;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(&some));
      if (copied_.empty()) return;
      group.swap(copied_);
    }
    const absl::Status synced = Sync(group);
    absl::MutexLock lock(&mutex_);
    if (!synced.ok()) {
      status_ = synced;
      copied_.clear();
      return;
    }
    for (const CopiedPart& part : group) unsynced_bytes_ -= part.size;
    unsynced_parts_ -= group.size();
  }
}

absl::Status PartSyncer::Sync(const std::vector<CopiedPart>& group) {
  std::vector<const StagedFile*> files;
  std::vector<content::PartJournal::PartKey> keys;
  int64_t bytes = 0;
  for (const CopiedPart& part : group) {
    if (std::find(files.begin(), files.end(), part.file.get()) == files.end()) {
      files.push_back(part.file.get());
    }
    keys.push_back(part.key);
    bytes += part.size;
  }
  // All are on their way before the first is waited for: the file system then has one transaction
  // of its own to write for all of them, rather than one each.
  for (const StagedFile* file : files) file->BeginWriteOut(0, 0);
  for (const StagedFile* file : files) CAPSTAN_RETURN_IF_ERROR(file->Sync());
  CrashPoint(crash::kLoaderPartSynced);
  CAPSTAN_RETURN_IF_ERROR(journal_->Append(keys));
  CrashPoint(crash::kLoaderPartNoted);
  noted_(bytes);
  return absl::OkStatus();
}

}  // namespace capstan::data_loader
