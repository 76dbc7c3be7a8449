#include "services/telemetry/subscription_reader.h"

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "gtest/gtest.h"
#include "libs/status/error.h"
#include "services/telemetry/core/stream_rules.h"

namespace capstan::telemetry {
namespace {

// What a reader was sent; outlives the sink.
struct Sent {
  std::vector<int64_t> offsets;
  int64_t generation = 0;
  bool caught_up = false;
  absl::Status answer;
  absl::optional<absl::Status> end;
};

class FakeSink final : public SubscriptionSink {
 public:
  explicit FakeSink(Sent* sent) : sent_(sent) {}
  absl::Status Write(const v1::SubscribeResponse& response) override {
    if (!sent_->answer.ok()) return sent_->answer;
    sent_->generation = response.reader_generation();
    sent_->caught_up |= response.caught_up();
    for (const v1::Record& record : response.records()) sent_->offsets.push_back(record.offset());
    return absl::OkStatus();
  }
  void NotifyDrained(Strand::Task) override {}
  void NotifyClosed(Strand::Task task) override { task(); }
  void Finish(const absl::Status& status) override { sent_->end = status; }

 private:
  Sent* const sent_;
};

class SubscriptionReaderTest : public testing::Test {
 protected:
  SubscriptionReaderTest() {
    core::SubscriptionRecord record;
    record.set_name("projects/p/subscriptions/s");
    record.set_stream("projects/p/jobs/j/streams/log");
    record.set_acknowledged_offset(4);
    record.set_reader_generation(9);
    reader_ = std::make_shared<SubscriptionReader>(record, std::make_unique<FakeSink>(&sent_));
    records_ = MakeReaderSink(reader_,
                              [this](const std::shared_ptr<SubscriptionReader>&) { ++told_gone_; });
  }
  static v1::ReadRecordsResponse Read(const std::vector<int64_t>& offsets, bool caught_up = false) {
    v1::ReadRecordsResponse read;
    for (const int64_t offset : offsets) read.add_records()->set_offset(offset);
    read.set_caught_up(caught_up);
    return read;
  }

  Sent sent_;
  int told_gone_ = 0;
  std::shared_ptr<SubscriptionReader> reader_;
  std::unique_ptr<RecordSink> records_;
};

using Offsets = std::vector<int64_t>;

TEST_F(SubscriptionReaderTest, RecordsFollowEachOther) {
  EXPECT_EQ(reader_->TellGeneration(), absl::OkStatus());
  EXPECT_EQ(sent_.generation, 9);
  EXPECT_EQ(records_->Write(Read({5, 6})), absl::OkStatus());
  EXPECT_EQ(records_->Write(Read({7}, /*caught_up=*/true)), absl::OkStatus());
  EXPECT_EQ(sent_.offsets, (Offsets{5, 6, 7}));
  EXPECT_TRUE(sent_.caught_up);
  EXPECT_EQ(reader_->next(), 8);
  EXPECT_EQ(told_gone_, 0);
}

TEST_F(SubscriptionReaderTest, WhatASlowReaderDoesNotTakeIsOfferedAgain) {
  sent_.answer = absl::ResourceExhaustedError("slow");
  EXPECT_EQ(records_->Write(Read({5, 6})), sent_.answer);
  EXPECT_EQ(reader_->next(), 5);
  sent_.answer = absl::OkStatus();
  EXPECT_EQ(records_->Write(Read({5, 6})), absl::OkStatus());
  EXPECT_EQ(sent_.offsets, (Offsets{5, 6}));
}

TEST_F(SubscriptionReaderTest, AHoleEndsItBehindWhatWasWhole) {
  EXPECT_TRUE(absl::IsCancelled(records_->Write(Read({5, 7}, /*caught_up=*/true))));
  EXPECT_EQ(sent_.offsets, Offsets{5});
  EXPECT_FALSE(sent_.caught_up);
  EXPECT_EQ(status::Reason(*sent_.end), "STREAM_DAMAGED");
  EXPECT_EQ(told_gone_, 1);
  EXPECT_TRUE(absl::IsCancelled(records_->Write(Read({6}))));
  EXPECT_EQ(sent_.offsets, Offsets{5});
}

TEST_F(SubscriptionReaderTest, WhatRetentionDroppedEndsItWithWhereToGoOn) {
  v1::ReadRecordsResponse read = Read({5});
  *read.add_records() =
      GapRecordBefore(/*first_kept=*/20, /*dropped_records=*/14, /*dropped_bytes=*/0);
  EXPECT_TRUE(absl::IsCancelled(records_->Write(read)));
  EXPECT_EQ(status::Reason(*sent_.end), "CURSOR_EXPIRED");
  EXPECT_EQ(status::GetErrorInfo(*sent_.end)->metadata.at("first_offset"), "20");
  EXPECT_EQ(status::GetErrorInfo(*sent_.end)->metadata.at("next_offset"), "6");
}

TEST_F(SubscriptionReaderTest, ARetentionThatOvertakesTheReadDoesSoToo) {
  EXPECT_EQ(records_->Write(Read({5})), absl::OkStatus());
  records_->Finish(status::Error(absl::StatusCode::kOutOfRange, "OFFSET_DROPPED", "gone",
                                 {{"first_offset", "30"}}));
  EXPECT_EQ(status::Reason(*sent_.end), "CURSOR_EXPIRED");
  EXPECT_EQ(status::GetErrorInfo(*sent_.end)->metadata.at("lost_records"), "24");
  EXPECT_EQ(told_gone_, 1);
}

TEST_F(SubscriptionReaderTest, TheFirstEndIsTheEnd) {
  reader_->End(absl::AbortedError("first"));
  records_->Finish(absl::OkStatus());
  EXPECT_EQ(*sent_.end, absl::AbortedError("first"));
  int tasks = 0;
  records_->NotifyClosed([&] { ++tasks; });
  EXPECT_EQ(tasks, 1);
  EXPECT_EQ(told_gone_, 2);
}

}  // namespace
}  // namespace capstan::telemetry
