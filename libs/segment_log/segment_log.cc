#include "libs/segment_log/segment_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "libs/crc32c/crc32c.h"
#include "libs/segment_log/frame.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"

namespace capstan::segment_log {
namespace {

namespace fs = ::std::filesystem;

constexpr char kSuffix[] = ".seg";
// Holds what retention has dropped: "<records> <bytes>\n".
constexpr char kDroppedFile[] = "dropped";
// Holds up to which offset the log was synced: u64, then its CRC-32C, u32, little-endian.
constexpr char kSyncedFile[] = "synced";
constexpr size_t kSyncedBytes = 12;
constexpr int64_t kIndexEvery = 64 << 10;
constexpr size_t kReadChunk = 256 << 10;

absl::Status IoError(absl::string_view what, const std::string& path, int error) {
  const std::string text = absl::StrCat(what, " ", path);
  if (error == ENOSPC || error == EDQUOT) {
    return status::Error(absl::StatusCode::kResourceExhausted, kReasonNoSpace, text);
  }
  return absl::ErrnoToStatus(error, text);
}

absl::Status DamagedError(const std::string& path, int64_t position, int64_t next_offset = 0) {
  return status::Error(
      absl::StatusCode::kDataLoss, kReasonDamaged,
      absl::StrCat(path, " is damaged at byte ", position,
                   next_offset > 0
                       ? absl::StrCat("; what is behind it begins at offset ", next_offset)
                       : ""),
      {{"path", path},
       {"position", absl::StrCat(position)},
       {"next_offset", absl::StrCat(next_offset)}});
}

std::string SyncedNote(int64_t offset) {
  std::string note;
  for (int i = 0; i < 8; ++i) note.push_back(static_cast<char>(offset >> (8 * i)));
  const uint32_t crc = Crc32c(note);
  for (int i = 0; i < 4; ++i) note.push_back(static_cast<char>(crc >> (8 * i)));
  return note;
}

absl::Status SyncFolder(const std::string& folder) {
  UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid() || ::fsync(fd.get()) != 0) return IoError("syncing", folder, errno);
  return absl::OkStatus();
}

// Reads up to `size` bytes at `position`; fewer only at the end of the file.
absl::StatusOr<std::string> ReadAt(int fd, const std::string& path, int64_t position, size_t size) {
  std::string bytes(size, '\0');
  size_t got = 0;
  while (got < size) {
    const ssize_t n =
        ::pread(fd, bytes.data() + got, size - got, position + static_cast<int64_t>(got));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return IoError("reading", path, errno);
    if (n == 0) break;
    got += static_cast<size_t>(n);
  }
  bytes.resize(got);
  return bytes;
}

absl::Status WriteWhole(int fd, const std::string& path, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return IoError("writing", path, errno);
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

absl::Status WriteFileDurably(const std::string& path, absl::string_view bytes) {
  const std::string temporary = path + ".new";
  UniqueFd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!fd.valid()) return IoError("making", temporary, errno);
  CAPSTAN_RETURN_IF_ERROR(WriteWhole(fd.get(), temporary, bytes));
  if (::fsync(fd.get()) != 0) return IoError("syncing", temporary, errno);
  if (::rename(temporary.c_str(), path.c_str()) != 0) return IoError("renaming", path, errno);
  return SyncFolder(fs::path(path).parent_path());
}

}  // namespace

absl::StatusOr<std::unique_ptr<SegmentLog>> SegmentLog::Open(
    const std::string& folder, Options options,
    absl::FunctionRef<void(absl::string_view header)> on_header,
    absl::FunctionRef<void(int64_t offset, absl::string_view payload)> on_record, Repair* repair) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return IoError("making", folder, error.value());
  auto log = std::unique_ptr<SegmentLog>(new SegmentLog(folder, options));
  absl::MutexLock lock(&log->mutex_);
  CAPSTAN_RETURN_IF_ERROR(log->Load(on_header, on_record, repair));
  return log;
}

absl::Status SegmentLog::Load(absl::FunctionRef<void(absl::string_view)> on_header,
                              absl::FunctionRef<void(int64_t, absl::string_view)> on_record,
                              Repair* repair) {
  CAPSTAN_RETURN_IF_ERROR(LoadDropped());
  const int64_t kept_from = dropped_.records + 1;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_, error)) {
    const std::string path = entry.path().string();
    if (entry.path().extension() != kSuffix) continue;
    int64_t first = 0;
    if (!absl::SimpleAtoi(entry.path().stem().string(), &first) || first < 1) continue;
    if (first > kMaxOffset) return DamagedError(path, 0);
    if (first < kept_from) {
      // Dropped, but a crash came before it was removed.
      if (::unlink(path.c_str()) != 0) return IoError("removing", path, errno);
      continue;
    }
    Segment segment;
    segment.path = path;
    segment.first_offset = first;
    segment.bytes = static_cast<int64_t>(entry.file_size(error));
    segments_.push_back(std::move(segment));
  }
  if (error) return IoError("listing", folder_, error.value());
  std::sort(segments_.begin(), segments_.end(),
            [](const Segment& a, const Segment& b) { return a.first_offset < b.first_offset; });
  next_offset_ = synced_offset_ = kept_from;
  const int64_t synced = LoadSynced();
  std::deque<Segment> unreadable;
  while (!segments_.empty()) {
    CAPSTAN_ASSIGN_OR_RETURN(const bool begun, LoadNewest(on_header, on_record, synced, repair));
    if (begun) break;
    // What was synced of it can't be read, nor what its header said: the owner's state is that of
    // the one before, and offsets go on behind it.
    if (segments_.back().first_offset < synced) {
      unreadable.push_front(std::move(segments_.back()));
      segments_.pop_back();
      continue;
    }
    // The process died while it began this segment: it goes on in the one before, whose header and
    // records hold the owner's state.
    const std::string path = segments_.back().path;
    segments_.pop_back();
    if (::unlink(path.c_str()) != 0) return IoError("removing", path, errno);
  }
  if (next_offset_ > kMaxOffset + 1) return DamagedError(segments_.back().path, 0);
  std::move(unreadable.begin(), unreadable.end(), std::back_inserter(segments_));
  if (next_offset_ < synced) SealDamaged(synced, repair);
  StoreSynced();
  return absl::OkStatus();
}

void SegmentLog::SealDamaged(int64_t synced, Repair* repair) {
  repair->damaged_records = synced - next_offset_;
  next_offset_ = synced_offset_ = synced;
  sealed_ = true;
}

int64_t SegmentLog::LoadSynced() {
  const std::string path = absl::StrCat(folder_, "/", kSyncedFile);
  synced_file_.Reset(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!synced_file_.valid()) return 0;
  const absl::StatusOr<std::string> note = ReadAt(synced_file_.get(), path, 0, kSyncedBytes);
  if (!note.ok() || note->size() != kSyncedBytes) return 0;
  uint64_t offset = 0;
  for (int i = 7; i >= 0; --i) offset = (offset << 8) | static_cast<unsigned char>((*note)[i]);
  // A note that was torn or damaged says nothing.
  if (offset > static_cast<uint64_t>(kMaxOffset) + 1 ||
      *note != SyncedNote(static_cast<int64_t>(offset))) {
    return 0;
  }
  return static_cast<int64_t>(offset);
}

void SegmentLog::StoreSynced() {
  if (!synced_file_.valid()) return;
  const std::string note = SyncedNote(synced_offset_);
  // Not synced itself, and no error of the log's: without it damage is taken for a torn tail.
  (void)!::pwrite(synced_file_.get(), note.data(), note.size(), 0);
}

absl::StatusOr<bool> SegmentLog::LoadNewest(
    absl::FunctionRef<void(absl::string_view)> on_header,
    absl::FunctionRef<void(int64_t, absl::string_view)> on_record, int64_t synced, Repair* repair) {
  Segment& newest = segments_.back();
  active_.Reset(::open(newest.path.c_str(), O_RDWR | O_APPEND | O_CLOEXEC));
  if (!active_.valid()) return IoError("opening", newest.path, errno);
  CAPSTAN_ASSIGN_OR_RETURN(const std::string content, ReadAt(active_.get(), newest.path, 0,
                                                             static_cast<size_t>(newest.bytes)));
  next_offset_ = newest.first_offset;
  int64_t good = 0;
  while (true) {
    const Frame frame = ParseFrame(absl::string_view(content).substr(good));
    if (frame.outcome != Frame::Outcome::kFrame) break;
    if (frame.kind == FrameKind::kHeader) {
      on_header(frame.payload);
    } else {
      if (newest.index.empty() || good - newest.index.back().second >= kIndexEvery) {
        newest.index.emplace_back(next_offset_, good);
      }
      on_record(next_offset_++, frame.payload);
    }
    good += static_cast<int64_t>(frame.bytes);
  }
  // What was synced is not cut off, however damaged it is: it may be read by other means.
  const bool torn = next_offset_ >= synced;
  if (torn && good < newest.bytes) {
    CAPSTAN_RETURN_IF_ERROR(RepairTail(newest, content, good, repair));
  }
  if (good == 0) return false;
  // What a crashed process had written but not synced is read from now on: it must be durable too.
  const bool all_synced = next_offset_ <= synced;
  CAPSTAN_RETURN_IF_ERROR(SyncSegment(active_.get(), newest.path, all_synced ? "" : folder_));
  // A record that was synced says that its segment was.
  new_segment_ = all_synced && newest.first_offset == next_offset_;
  synced_offset_ = next_offset_;
  synced_bytes_ = newest.bytes;
  return true;
}

absl::Status SegmentLog::RepairTail(Segment& segment, const std::string& content, int64_t good,
                                    Repair* repair) {
  repair->torn_bytes = segment.bytes - good;
  CAPSTAN_RETURN_IF_ERROR(
      WriteFileDurably(segment.path + ".torn", absl::string_view(content).substr(good)));
  if (::ftruncate(active_.get(), good) != 0) return IoError("cutting", segment.path, errno);
  segment.bytes = good;
  return absl::OkStatus();
}

absl::Status SegmentLog::LoadDropped() {
  const std::string path = absl::StrCat(folder_, "/", kDroppedFile);
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return errno == ENOENT ? absl::OkStatus() : IoError("opening", path, errno);
  CAPSTAN_ASSIGN_OR_RETURN(const std::string text, ReadAt(fd.get(), path, 0, 256));
  const std::vector<std::string> words = absl::StrSplit(text, absl::ByAnyChar(" \n"));
  if (words.size() < 2 || !absl::SimpleAtoi(words[0], &dropped_.records) ||
      !absl::SimpleAtoi(words[1], &dropped_.bytes) || dropped_.records < 0 ||
      dropped_.records > kMaxOffset || dropped_.bytes < 0 || dropped_.bytes > kMaxOffset) {
    return DamagedError(path, 0);
  }
  return absl::OkStatus();
}

absl::Status SegmentLog::StoreDropped() {
  return WriteFileDurably(absl::StrCat(folder_, "/", kDroppedFile),
                          absl::StrCat(dropped_.records, " ", dropped_.bytes, "\n"));
}

absl::Status SegmentLog::BeginSegment(absl::string_view header) {
  if (header.size() > kMaxFramePayload) {
    return absl::InvalidArgumentError("a segment's header is longer than 4 MiB");
  }
  Segment segment;
  segment.path = absl::StrFormat("%s/%020d%s", folder_, next_offset_, kSuffix);
  segment.first_offset = next_offset_;
  UniqueFd fd(::open(segment.path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd.valid()) return IoError("making", segment.path, errno);
  std::string bytes;
  AppendFrame(FrameKind::kHeader, header, &bytes);
  const absl::Status made = WriteWhole(fd.get(), segment.path, bytes);
  if (!made.ok()) {
    ::unlink(segment.path.c_str());
    return made;
  }
  segment.bytes = static_cast<int64_t>(bytes.size());
  active_ = std::move(fd);
  sealed_ = false;
  new_segment_ = true;
  synced_bytes_ = 0;
  segments_.push_back(std::move(segment));
  return absl::OkStatus();
}

void SegmentLog::CutBack(int64_t bytes) {
  Segment& newest = segments_.back();
  // If even this fails, the next Open finds a torn tail.
  if (::ftruncate(active_.get(), bytes) != 0) broken_ = IoError("cutting", newest.path, errno);
  newest.bytes = bytes;
}

absl::Status SegmentLog::Write(absl::string_view bytes) {
  Segment& newest = segments_.back();
  absl::Status written = WriteWhole(active_.get(), newest.path, bytes);
  if (!written.ok()) {
    CutBack(newest.bytes);
    return written;
  }
  newest.bytes += static_cast<int64_t>(bytes.size());
  return absl::OkStatus();
}

absl::StatusOr<int64_t> SegmentLog::Append(const std::vector<std::string>& payloads,
                                           absl::FunctionRef<std::string()> header) {
  absl::MutexLock lock(&mutex_);
  if (!broken_.ok()) return broken_;
  if (next_offset_ > kMaxOffset ||
      static_cast<int64_t>(payloads.size()) > kMaxOffset + 1 - next_offset_) {
    return absl::OutOfRangeError(absl::StrCat("no offsets are left for ", payloads.size(),
                                              " records from ", next_offset_, " on: the last is ",
                                              kMaxOffset));
  }
  // A segment without a record goes on however long its header is: the next would have its name.
  if (segments_.empty() || sealed_ ||
      (segments_.back().bytes >= options_.segment_bytes &&
       segments_.back().first_offset < next_offset_)) {
    if (!segments_.empty() && !sealed_) {
      // Only the newest segment may hold what is not synced.
      broken_ = SyncSegment(active_.get(), segments_.back().path, new_segment_ ? folder_ : "");
      if (!broken_.ok()) return broken_;
      new_segment_ = false;
    }
    CAPSTAN_RETURN_IF_ERROR(BeginSegment(header()));
  }
  Segment& newest = segments_.back();
  std::string bytes;
  std::vector<std::pair<int64_t, int64_t>> index;
  int64_t offset = next_offset_;
  int64_t indexed = newest.index.empty() ? -kIndexEvery : newest.index.back().second;
  for (const std::string& payload : payloads) {
    if (payload.size() > kMaxFramePayload) {
      return absl::InvalidArgumentError("a record is longer than 4 MiB");
    }
    const int64_t position = newest.bytes + static_cast<int64_t>(bytes.size());
    if (position - indexed >= kIndexEvery) {
      index.emplace_back(offset, position);
      indexed = position;
    }
    AppendFrame(FrameKind::kRecord, payload, &bytes);
    ++offset;
  }
  CAPSTAN_RETURN_IF_ERROR(Write(bytes));
  newest.index.insert(newest.index.end(), index.begin(), index.end());
  return std::exchange(next_offset_, offset);
}

absl::Status SegmentLog::SyncSegment(int fd, const std::string& path, const std::string& new_in) {
  if (!new_in.empty()) CAPSTAN_RETURN_IF_ERROR(SyncFolder(new_in));
  if (::fdatasync(fd) != 0) return IoError("syncing", path, errno);
  return absl::OkStatus();
}

absl::Status SegmentLog::Sync() {
  int fd = -1;
  std::string path;
  std::string new_in;
  int64_t offset = 0;
  int64_t bytes = 0;
  {
    absl::MutexLock lock(&mutex_);
    if (!broken_.ok()) return broken_;
    if (synced_offset_ == next_offset_) return absl::OkStatus();
    fd = active_.get();
    path = segments_.back().path;
    if (new_segment_) new_in = folder_;
    offset = next_offset_;
    bytes = segments_.back().bytes;
  }
  const absl::Status synced = SyncSegment(fd, path, new_in);
  absl::MutexLock lock(&mutex_);
  if (!synced.ok()) {
    // The kernel has forgotten which pages failed: what is there can't be trusted or tried again.
    broken_ = synced;
    CutBack(synced_bytes_);
    next_offset_ = std::max(synced_offset_, segments_.back().first_offset);
    return broken_;
  }
  new_segment_ = false;
  synced_offset_ = offset;
  synced_bytes_ = bytes;
  StoreSynced();
  return absl::OkStatus();
}

int64_t SegmentLog::EndOf(size_t segment) const {
  return segment + 1 < segments_.size() ? segments_[segment + 1].first_offset : synced_offset_;
}

absl::StatusOr<std::vector<SegmentLog::Entry>> SegmentLog::Read(int64_t offset, int64_t max_bytes) {
  absl::MutexLock lock(&mutex_);
  std::vector<Entry> entries;
  if (offset <= dropped_.records) {
    return status::Error(absl::StatusCode::kOutOfRange, kReasonDropped,
                         absl::StrCat("offset ", offset, " was dropped by retention"),
                         {{"first_offset", absl::StrCat(dropped_.records + 1)}});
  }
  int64_t bytes = 0;
  while (offset < synced_offset_ && bytes < max_bytes) {
    if (segments_.empty()) return DamagedError(folder_, 0, synced_offset_);
    size_t at = 0;
    while (at + 1 < segments_.size() && segments_[at + 1].first_offset <= offset) ++at;
    Segment& segment = segments_[at];
    // The file that it was in is gone.
    if (segment.first_offset > offset) {
      return DamagedError(segment.path, 0, segment.first_offset);
    }
    UniqueFd fd(::open(segment.path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd.valid()) return IoError("opening", segment.path, errno);
    const auto after =
        std::upper_bound(segment.index.begin(), segment.index.end(), offset,
                         [](int64_t wanted, const auto& entry) { return wanted < entry.first; });
    int64_t current = after == segment.index.begin() ? segment.first_offset : (after - 1)->first;
    int64_t position = after == segment.index.begin() ? 0 : (after - 1)->second;
    const int64_t end = EndOf(at);
    std::string buffer;
    size_t used = 0;
    size_t chunk = kReadChunk;
    while (current < end && bytes < max_bytes) {
      const Frame frame = ParseFrame(absl::string_view(buffer).substr(used));
      if (frame.outcome == Frame::Outcome::kTruncated) {
        position += static_cast<int64_t>(used);
        CAPSTAN_ASSIGN_OR_RETURN(std::string more, ReadAt(fd.get(), segment.path, position, chunk));
        // No progress: the file ends within a frame that was synced.
        if (used == 0 && more.size() <= buffer.size()) {
          return DamagedError(segment.path, position, end);
        }
        buffer = std::move(more);
        used = 0;
        chunk = kReadChunk + kMaxFramePayload;
        continue;
      }
      if (frame.outcome == Frame::Outcome::kDamaged) {
        return DamagedError(segment.path, position + static_cast<int64_t>(used), end);
      }
      if (frame.kind == FrameKind::kRecord) {
        const int64_t here = position + static_cast<int64_t>(used);
        if (segment.index.empty() ? current == segment.first_offset
                                  : segment.index.back().first < current &&
                                        here - segment.index.back().second >= kIndexEvery) {
          segment.index.emplace_back(current, here);
        }
        if (current >= offset) {
          entries.push_back({current, std::string(frame.payload)});
          bytes += static_cast<int64_t>(frame.payload.size());
          offset = current + 1;
        }
        ++current;
      }
      used += frame.bytes;
      chunk = kReadChunk;
    }
  }
  return entries;
}

int64_t SegmentLog::first_offset() const {
  absl::MutexLock lock(&mutex_);
  return dropped_.records + 1;
}

int64_t SegmentLog::next_offset() const {
  absl::MutexLock lock(&mutex_);
  return synced_offset_;
}

int64_t SegmentLog::bytes() const {
  absl::MutexLock lock(&mutex_);
  int64_t bytes = 0;
  for (const Segment& segment : segments_) bytes += segment.bytes;
  return bytes;
}

SegmentLog::Dropped SegmentLog::dropped() const {
  absl::MutexLock lock(&mutex_);
  return dropped_;
}

absl::Status SegmentLog::Drop(int64_t keep_bytes, absl::Time keep_since) {
  absl::MutexLock lock(&mutex_);
  int64_t total = 0;
  for (const Segment& segment : segments_) total += segment.bytes;
  const Dropped before = dropped_;
  size_t gone = 0;
  while (gone + 1 < segments_.size()) {
    const Segment& oldest = segments_[gone];
    struct stat file = {};
    if (::stat(oldest.path.c_str(), &file) != 0) return IoError("stat", oldest.path, errno);
    if (total <= keep_bytes && absl::TimeFromTimespec(file.st_mtim) >= keep_since) break;
    total -= oldest.bytes;
    dropped_.records = segments_[gone + 1].first_offset - 1;
    dropped_.bytes += oldest.bytes;
    ++gone;
  }
  if (gone == 0) return absl::OkStatus();
  // Written down first: a crash in between removes the files at the next Open.
  absl::Status stored = StoreDropped();
  if (!stored.ok()) {
    dropped_ = before;
    return stored;
  }
  for (; gone > 0; --gone) {
    const std::string path = segments_.front().path;
    segments_.pop_front();
    ::unlink(path.c_str());
    ::unlink((path + ".torn").c_str());
  }
  return absl::OkStatus();
}

}  // namespace capstan::segment_log
