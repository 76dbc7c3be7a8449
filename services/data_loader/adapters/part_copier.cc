#include "services/data_loader/adapters/part_copier.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "libs/status/status_macros.h"

namespace capstan::data_loader {
namespace {

// When so much of a part is written the disk begins with it, which has nothing to do before, and it
// is hashed, while the core that wrote it has it in its cache.
constexpr int64_t kPieceBytes = 1 << 20;

// The same parts, those of so many files in turns. Who copies a part of a file then mostly finds
// the one before it hashed, and hashes its own; one file after the other would be copied by all and
// hashed by one, for whom all wait at the end.
std::vector<Part> InTurns(const std::vector<Part>& parts, int files) {
  std::vector<Part> turns;
  turns.reserve(parts.size());
  for (size_t begin = 0; begin < parts.size();) {
    // Where each file's parts that have not had their turn begin and end.
    std::vector<std::pair<size_t, size_t>> rest;
    size_t end = begin;
    for (; end < parts.size(); ++end) {
      const bool another = rest.empty() || parts[end].file != parts[end - 1].file;
      if (another && static_cast<int>(rest.size()) == files) break;
      if (another) rest.emplace_back(end, end);
      rest.back().second = end + 1;
    }
    for (const size_t done = turns.size(); turns.size() - done < end - begin;) {
      for (auto& [next, last] : rest) {
        if (next < last) turns.push_back(parts[next++]);
      }
    }
    begin = end;
  }
  return turns;
}

}  // namespace

PartCopier::PartCopier(const CopyPlaces& places, const CopyOptions& options, Progressed progressed,
                       const std::atomic<bool>* stop)
    : places_(places), options_(options), progressed_(progressed), stop_(stop) {}

int64_t PartCopier::source_bytes_read() {
  absl::MutexLock lock(&mutex_);
  return source_bytes_read_;
}

absl::StatusOr<std::vector<std::string>> PartCopier::Run(const std::vector<Part>& parts,
                                                         int64_t source_bytes_read) {
  int64_t found_bytes = 0;
  for (const Part& part : parts) {
    if (places_.journal->found().contains({part.file, part.index})) found_bytes += part.size;
  }
  {
    absl::MutexLock lock(&mutex_);
    digests_.resize(static_cast<size_t>(places_.plan->files_size()));
    loaded_bytes_ = found_bytes;
    source_bytes_read_ = std::max(source_bytes_read, found_bytes);
    progressed_(loaded_bytes_, source_bytes_read_);
  }
  PartSyncer syncer(places_.journal, options_.limits, [this](int64_t bytes) { Noted(bytes); });
  std::vector<std::thread> threads;
  const int count = std::min<int>(options_.parallel_parts, static_cast<int>(parts.size()));
  const std::vector<Part> turns = InTurns(parts, options_.parallel_parts);
  for (int i = 1; i < count; ++i) threads.emplace_back([&] { Work(turns, syncer); });
  Work(turns, syncer);
  for (std::thread& thread : threads) thread.join();
  const absl::Status synced = syncer.Finish();
  absl::MutexLock lock(&mutex_);
  growing_.clear();
  CAPSTAN_RETURN_IF_ERROR(status_);
  CAPSTAN_RETURN_IF_ERROR(synced);
  return std::move(digests_);
}

void PartCopier::Work(const std::vector<Part>& parts, PartSyncer& syncer) {
  while (true) {
    const size_t i = next_++;
    if (i >= parts.size()) return;
    {
      absl::MutexLock lock(&mutex_);
      if (!status_.ok()) return;
    }
    const absl::Status brought = Bring(parts[i], syncer);
    if (brought.ok()) continue;
    absl::MutexLock lock(&mutex_);
    if (status_.ok()) status_ = brought;
    return;
  }
}

absl::Status PartCopier::Bring(const Part& part, PartSyncer& syncer) {
  if (places_.journal->found().contains({part.file, part.index})) {
    CAPSTAN_ASSIGN_OR_RETURN(const std::shared_ptr<GrowingFile> growing, Open(part.file));
    return Hash(part.file, *growing, part.offset, part.size);
  }
  CAPSTAN_RETURN_IF_ERROR(syncer.AwaitRoom());
  CAPSTAN_ASSIGN_OR_RETURN(const std::shared_ptr<GrowingFile> growing, Open(part.file));
  CAPSTAN_ASSIGN_OR_RETURN(const int64_t hashed, Copy(part, *growing));
  syncer.Add({.key = {part.file, part.index},
              .size = part.size,
              .file = std::shared_ptr<const StagedFile>(growing, &growing->file)});
  return Hash(part.file, *growing, hashed, part.offset + part.size - hashed);
}

absl::StatusOr<std::shared_ptr<PartCopier::GrowingFile>> PartCopier::Open(int32_t file) {
  absl::MutexLock lock(&mutex_);
  std::shared_ptr<GrowingFile>& growing = growing_[file];
  if (growing == nullptr) {
    const LoadPlan::File& planned = places_.plan->files(file);
    CAPSTAN_ASSIGN_OR_RETURN(StagedFile opened, StagedFile::Open(*places_.staged, planned.path()));
    growing = std::make_shared<GrowingFile>(std::move(opened), planned.size_bytes());
  }
  return growing;
}

absl::StatusOr<int64_t> PartCopier::Copy(const Part& part, GrowingFile& growing) {
  int64_t at = part.offset;
  int64_t hashed = part.offset;
  const auto write = [&](absl::string_view bytes) -> absl::Status {
    if (*stop_) return absl::CancelledError("stopped");
    {
      absl::MutexLock lock(&mutex_);
      source_bytes_read_ += static_cast<int64_t>(bytes.size());
    }
    CAPSTAN_RETURN_IF_ERROR(growing.file.Write(at, bytes));
    at += static_cast<int64_t>(bytes.size());
    // What is left at the end comes after the part is on its way to be synced.
    if (at - hashed < kPieceBytes || at == part.offset + part.size) return absl::OkStatus();
    growing.file.BeginWriteOut(hashed, at - hashed);
    const int64_t from = std::exchange(hashed, at);
    return Hash(part.file, growing, from, at - from);
  };
  CAPSTAN_RETURN_IF_ERROR(
      places_.source->Read(places_.plan->files(part.file), part.offset, part.size, write));
  return hashed;
}

absl::Status PartCopier::Hash(int32_t file, GrowingFile& growing, int64_t offset, int64_t size) {
  const auto read = [&](int64_t from, int64_t length,
                        absl::FunctionRef<absl::Status(absl::string_view)> sink) {
    return growing.file.Read(from, length, [&](absl::string_view bytes) {
      return *stop_ ? absl::CancelledError("stopped") : sink(bytes);
    });
  };
  CAPSTAN_ASSIGN_OR_RETURN(absl::optional<std::string> digest,
                           growing.digest.Add(offset, size, read));
  if (!digest.has_value()) return absl::OkStatus();
  absl::MutexLock lock(&mutex_);
  digests_[static_cast<size_t>(file)] = *std::move(digest);
  growing_.erase(file);
  return absl::OkStatus();
}

void PartCopier::Noted(int64_t bytes) {
  absl::MutexLock lock(&mutex_);
  loaded_bytes_ += bytes;
  progressed_(loaded_bytes_, source_bytes_read_);
}

}  // namespace capstan::data_loader
