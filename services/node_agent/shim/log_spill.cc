#include "services/node_agent/shim/log_spill.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/node_agent/shim/log_frame.h"

namespace capstan::node_agent {
namespace {

constexpr int64_t kMinLimit = 1 << 20;
constexpr int64_t kMaxSegment = 8 << 20;

}  // namespace

LogSpill::LogSpill(std::string folder, int64_t limit_bytes, const Clock* clock)
    : folder_(std::move(folder)),
      limit_bytes_(std::max(limit_bytes, kMinLimit)),
      segment_bytes_(std::min(kMaxSegment, limit_bytes_ / 8)),
      clock_(clock) {}

void LogSpill::Write(int stream, absl::string_view bytes) {
  std::string& pending = pending_[stream == 2 ? 1 : 0];
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    const size_t take = std::min(
        {end == absl::string_view::npos ? bytes.size() : end, kLogLineLimit - pending.size()});
    pending.append(bytes.data(), take);
    bytes.remove_prefix(take);
    if (!bytes.empty() && bytes.front() == '\n') {
      AppendRecord(stream, pending, false);
      pending.clear();
      bytes.remove_prefix(1);
    } else if (pending.size() == kLogLineLimit) {
      AppendRecord(stream, pending, true);
      pending.clear();
    }
  }
  Emit();
}

void LogSpill::Flush() {
  for (int stream : {1, 2}) {
    std::string& pending = pending_[stream - 1];
    if (!pending.empty()) AppendRecord(stream, pending, false);
    pending.clear();
  }
  Emit();
  // Nothing will follow that could show the gap.
  if (tail_lost_) {
    AppendRecord(1, "", false);
    Emit();
  }
}

void LogSpill::AppendRecord(int stream, absl::string_view line, bool partial) {
  capstan::nodeagent::v1::ShimLogRecord record;
  record.set_sequence(next_sequence_++);
  record.set_fd(stream);
  record.set_time_us(absl::ToUnixMicros(clock_->Read().wall));
  record.set_line(std::string(line));
  record.set_partial(partial);
  record.set_dropped_bytes(std::exchange(dropped_bytes_, 0));
  record.set_position(position_);
  position_ += static_cast<int64_t>(line.size());
  AppendLogFrame(record, &batch_);
  ++batch_records_;
  batch_line_bytes_ += static_cast<int64_t>(line.size());
}

void LogSpill::Emit() {
  if (batch_.empty()) return;
  const int64_t size = static_cast<int64_t>(batch_.size());
  MakeRoom(size);
  bool written = false;
  if (OpenSegment()) {
    Segment& segment = segments_.back();
    written = WriteAll(file_.get(), batch_, folder_).ok();
    if (written) {
      segment.size += size;
      segment.line_bytes += batch_line_bytes_;
      total_ += size;
    } else if (ftruncate(file_.get(), segment.size) != 0) {
      // The torn frame stays; readers skip from it to the next segment, so there must be one.
      file_.Reset(-1);
    }
  }
  // After AppendRecord took the old count, so a loss during a loss adds up.
  if (!written) dropped_bytes_ += batch_line_bytes_;
  tail_lost_ = !written;
  batch_.clear();
  batch_records_ = 0;
  batch_line_bytes_ = 0;
}

void LogSpill::MakeRoom(int64_t needed) {
  if (total_ + needed <= limit_bytes_) return;
  // What has been shipped and removed meanwhile is no loss.
  std::deque<Segment> left;
  for (const Segment& segment : segments_) {
    if (access(Path(segment).c_str(), F_OK) == 0) {
      left.push_back(segment);
    } else {
      total_ -= segment.size;
    }
  }
  if (left.empty() ||
      (!segments_.empty() && left.back().first_sequence != segments_.back().first_sequence)) {
    file_.Reset(-1);
  }
  segments_ = std::move(left);
  while (total_ + needed > limit_bytes_ && segments_.size() > 1) {
    const Segment& oldest = segments_.front();
    if (unlink(Path(oldest).c_str()) == 0) dropped_bytes_ += oldest.line_bytes;
    total_ -= oldest.size;
    segments_.pop_front();
  }
}

bool LogSpill::OpenSegment() {
  if (file_.valid() && segments_.back().size < segment_bytes_) return true;
  Segment segment;
  segment.first_sequence = next_sequence_ - batch_records_;
  UniqueFd file(open(Path(segment).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!file.valid()) return file_.valid();
  file_ = std::move(file);
  segments_.push_back(segment);
  return true;
}

std::string LogSpill::Path(const Segment& segment) const {
  return absl::StrCat(folder_, "/", LogSegmentName(segment.first_sequence));
}

}  // namespace capstan::node_agent
