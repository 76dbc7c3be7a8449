#include "tools/capstan/cli/log_reader.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "tools/capstan/cli/job_follow.h"

namespace capstan::cli {
namespace {

using telemetry::v1::Record;

// A log that is not closed so long after its Job's end and the last line: its Node is away.
constexpr absl::Duration kQuietBound = absl::Seconds(10);
// Records beyond the wanted lines that are read for a tail at first: those of other ranks, and
// those that close logs, are no lines.
constexpr int64_t kTailMargin = 4096;

}  // namespace

LogReader::LogReader(
    CommandLoop* loop, Platform* platform, LogSelection selection,
    std::function<void(const Record&)> on_line,
    std::function<void(const absl::Status&, const std::vector<std::string>&)> on_complete)
    : loop_(loop),
      platform_(platform),
      selection_(std::move(selection)),
      on_line_(std::move(on_line)),
      on_complete_(std::move(on_complete)),
      end_(selection_.rank, selection_.generation) {}

absl::Status LogReader::Start() {
  keeping_ = selection_.tail.has_value();
  return Read(keeping_ ? *selection_.tail + kTailMargin : 0);
}

absl::Status LogReader::Read(int64_t tail) {
  const int attempt = ++attempt_;
  all_ = tail == 0;
  wanted_ = tail;
  records_ = 0;
  StreamQuery query;
  query.stream = absl::StrCat(selection_.job, "/streams/log");
  if (tail > 0) query.tail = tail;
  query.follow = selection_.follow;
  if (selection_.rank.has_value()) query.attributes["rank"] = absl::StrCat(*selection_.rank);
  if (selection_.generation.has_value()) {
    query.attributes["generation"] = absl::StrCat(*selection_.generation);
  }
  return ReadStream(
      loop_, platform_, query,
      [this, attempt](const Record& record) { return OnRecord(attempt, record); },
      [this, attempt] { OnCaughtUp(attempt); },
      [this, attempt](const absl::Status& status) { OnOver(attempt, status); });
}

bool LogReader::OnRecord(int attempt, const Record& record) {
  if (attempt != attempt_ || complete_) return false;
  heard_ = loop_->clock()->Read().boot;
  ++records_;
  end_.OnRecord(record);
  if (!LogEnd::IsEnd(record)) {
    if (!keeping_) {
      Give(record);
    } else if (*selection_.tail > 0) {
      if (static_cast<int64_t>(kept_.size()) == *selection_.tail) kept_.pop_front();
      kept_.push_back(record);
    }
  }
  CheckEnd();
  return !complete_;
}

void LogReader::OnCaughtUp(int attempt) {
  if (attempt != attempt_ || complete_) return;
  if (keeping_ && !all_ && static_cast<int64_t>(kept_.size()) < *selection_.tail) {
    // The lines wanted lie farther back, or there are no more.
    kept_.clear();
    const absl::Status begun = Read(0);
    if (!begun.ok()) Complete(begun);
    return;
  }
  GiveKept();
  end_.OnCaughtUp();
  CheckEnd();
}

void LogReader::OnOver(int attempt, const absl::Status& status) {
  if (attempt != attempt_ || complete_) return;
  GiveKept();
  Complete(status);
}

void LogReader::OnJob(const scheduler::v1::Job& job) {
  end_.OnJob(job);
  CheckEnd();
}

void LogReader::OnJobGone() {
  end_.OnJobGone();
  CheckEnd();
}

std::vector<std::string> LogReader::Unclosed(const scheduler::v1::Job& job) {
  const bool whole = all_ || records_ < wanted_;
  end_.OnJob(job);
  return whole && end_.job_ended() ? end_.Open() : std::vector<std::string>();
}

void LogReader::Give(const Record& record) {
  ++lines_;
  on_line_(record);
}

void LogReader::GiveKept() {
  keeping_ = false;
  for (const Record& record : std::exchange(kept_, {})) Give(record);
}

void LogReader::CheckEnd() {
  if (complete_ || !selection_.follow || !end_.job_ended()) return;
  if (end_.complete()) return Complete(absl::OkStatus());
  if (!timer_armed_) {
    heard_ = loop_->clock()->Read().boot;
    ArmQuietTimer();
  }
}

void LogReader::ArmQuietTimer() {
  timer_armed_ = true;
  loop_->strand()->RunAt(heard_ + kQuietBound, [this] {
    if (complete_) return;
    if (loop_->clock()->Read().boot - heard_ < kQuietBound) return ArmQuietTimer();
    Complete(absl::OkStatus());
  });
}

void LogReader::Complete(const absl::Status& status) {
  if (std::exchange(complete_, true)) return;
  on_complete_(status, end_.job_ended() ? end_.Open() : std::vector<std::string>());
}

}  // namespace capstan::cli
