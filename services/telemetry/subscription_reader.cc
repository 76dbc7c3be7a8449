#include "services/telemetry/subscription_reader.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "libs/status/error.h"
#include "services/telemetry/core/stream_rules.h"
#include "services/telemetry/core/subscription_book.h"

namespace capstan::telemetry {
namespace {

// What segment_log says when retention overtakes a read.
constexpr char kDropped[] = "OFFSET_DROPPED";

absl::Status Over() { return absl::CancelledError("the reader is over"); }

class ReaderSink final : public RecordSink {
 public:
  ReaderSink(std::shared_ptr<SubscriptionReader> reader,
             std::function<void(const std::shared_ptr<SubscriptionReader>&)> gone)
      : reader_(std::move(reader)), gone_(std::move(gone)) {}

  absl::Status Write(const v1::ReadRecordsResponse& response) override {
    absl::Status written = reader_->Write(response);
    if (reader_->over()) gone_(reader_);
    return written;
  }
  void NotifyDrained(Strand::Task task) override { reader_->NotifyDrained(std::move(task)); }
  void NotifyClosed(Strand::Task task) override {
    // Weak: the reader has what it is told by.
    reader_->NotifyClosed([weak = std::weak_ptr<SubscriptionReader>(reader_), gone = gone_,
                           task = std::move(task)]() mutable {
      task();
      const std::shared_ptr<SubscriptionReader> reader = weak.lock();
      if (reader != nullptr) gone(reader);
    });
  }
  void Finish(const absl::Status& status) override {
    reader_->End(status);
    gone_(reader_);
  }

 private:
  const std::shared_ptr<SubscriptionReader> reader_;
  const std::function<void(const std::shared_ptr<SubscriptionReader>&)> gone_;
};

}  // namespace

std::unique_ptr<RecordSink> MakeReaderSink(
    std::shared_ptr<SubscriptionReader> reader,
    std::function<void(const std::shared_ptr<SubscriptionReader>&)> gone) {
  return std::make_unique<ReaderSink>(std::move(reader), std::move(gone));
}

SubscriptionReader::SubscriptionReader(core::SubscriptionRecord record,
                                       std::unique_ptr<SubscriptionSink> sink)
    : record_(std::move(record)),
      sink_(std::move(sink)),
      next_(record_.acknowledged_offset() + 1) {}

absl::Status SubscriptionReader::TellGeneration() {
  v1::SubscribeResponse response;
  response.set_reader_generation(record_.reader_generation());
  return sink_->Write(response);
}

absl::Status SubscriptionReader::Write(const v1::ReadRecordsResponse& read) {
  if (over_) return Over();
  v1::SubscribeResponse response;
  response.set_reader_generation(record_.reader_generation());
  int64_t next = next_;
  absl::Status broken;
  for (const v1::Record& record : read.records()) {
    if (IsRetentionGap(record)) {
      broken = Expired(next, record.offset() + 1);
    } else if (record.offset() != next) {
      broken = status::Error(absl::StatusCode::kDataLoss, "STREAM_DAMAGED",
                             absl::StrCat("record ", next, " of ", record_.stream(),
                                          " is missing: the next is ", record.offset()));
    }
    if (!broken.ok()) break;
    *response.add_records() = record;
    ++next;
  }
  response.set_caught_up(broken.ok() && read.caught_up());
  if (response.records_size() > 0 || response.caught_up()) {
    absl::Status written = sink_->Write(response);
    if (!written.ok()) return written;
    next_ = next;
  }
  if (broken.ok()) return absl::OkStatus();
  End(broken);
  return Over();
}

void SubscriptionReader::End(const absl::Status& why) {
  if (std::exchange(over_, true)) return;
  int64_t first = 0;
  const auto info = status::GetErrorInfo(why);
  if (info.has_value() && info->reason == kDropped) {
    const auto it = info->metadata.find("first_offset");
    if (it != info->metadata.end() && absl::SimpleAtoi(it->second, &first)) {
      return sink_->Finish(Expired(next_, first));
    }
  }
  sink_->Finish(why);
}

absl::Status SubscriptionReader::Expired(int64_t next, int64_t first) const {
  core::SubscriptionRecord at = record_;
  at.set_acknowledged_offset(next - 1);
  return CheckCursor(at, {first, std::max(first, next)});
}

}  // namespace capstan::telemetry
