#include "libs/trace/exporter.h"

#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/log/log.h"
#include "libs/log/testing_sink.h"
#include "libs/metrics/registry.h"
#include "libs/random/random.h"
#include "libs/status/error.h"
#include "libs/strand/simulated_strand.h"
#include "libs/time/clock.h"
#include "libs/time/simulated_clock.h"
#include "libs/trace/context.h"
#include "libs/trace/span.h"
#include "libs/trace/span_queue.h"

namespace capstan::trace {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class ExporterTest : public ::testing::Test {
 protected:
  ExporterTest() {
    Exporter::Options options;
    options.batch_spans = 3;
    exporter_ = std::make_unique<Exporter>(
        options,
        Exporter::Deps{.strand = &strand_,
                       .random = &random_,
                       .queue = &queue_,
                       .log = &logger_,
                       .send =
                           [this](const Exporter::Request& request, auto done) {
                             std::vector<uint64_t> spans;
                             for (const auto& span :
                                  request.resource_spans(0).scope_spans(0).spans()) {
                               spans.push_back(static_cast<uint8_t>(span.span_id().back()));
                             }
                             sent_.push_back(std::move(spans));
                             answers_.push_back(std::move(done));
                           }},
        counters_, std::vector<Attribute>{{"service.name", "test"}});
    exporter_->Start();
  }

  void End(uint64_t span) {
    Span ended;
    ended.context = {.trace_high = 1, .trace_low = 1, .span = span, .sampled = true};
    queue_.End(std::move(ended));
    strand_.RunReady();
  }
  void Answer(absl::StatusOr<Exporter::Response> answer) {
    ASSERT_FALSE(answers_.empty());
    auto done = std::move(answers_.front());
    answers_.pop_front();
    done(std::move(answer));
    strand_.RunReady();
  }
  // Of each request that was sent since the last look.
  std::vector<std::vector<uint64_t>> Sent() { return std::exchange(sent_, {}); }

  SimulatedClock clock_;
  SimulatedStrand strand_{&clock_};
  Random random_{1};
  metrics::Registry registry_{"process"};
  SpanCounters counters_{&registry_};
  SpanQueue queue_{5, counters_.queue_full};
  log::TestingSink sink_;
  log::Logger logger_{"x", &clock_, &sink_};
  std::vector<std::vector<uint64_t>> sent_;
  std::deque<absl::AnyInvocable<void(absl::StatusOr<Exporter::Response>)>> answers_;
  std::unique_ptr<Exporter> exporter_;
};

TEST_F(ExporterTest, SpansGoTogetherAfterASecondOrWhenThereIsABatch) {
  End(1);
  End(2);
  EXPECT_THAT(Sent(), IsEmpty());
  strand_.Advance(absl::Seconds(1));
  EXPECT_THAT(Sent(), ElementsAre(ElementsAre(1, 2)));
  Answer(Exporter::Response());
  EXPECT_EQ(counters_.exported.value(), 2);
  End(3);
  End(4);
  End(5);
  EXPECT_THAT(Sent(), ElementsAre(ElementsAre(3, 4, 5)));
  End(6);
  strand_.Advance(absl::Seconds(2));
  // One at a time.
  EXPECT_THAT(Sent(), IsEmpty());
  Answer(Exporter::Response());
  EXPECT_THAT(Sent(), ElementsAre(ElementsAre(6)));
  EXPECT_THAT(sink_.records(), IsEmpty());
}

TEST_F(ExporterTest, TheSameBatchGoesAgainAfterWhatOtlpCallsRetryable) {
  End(1);
  strand_.Advance(absl::Seconds(1));
  for (const absl::StatusCode code :
       {absl::StatusCode::kCancelled, absl::StatusCode::kDeadlineExceeded,
        absl::StatusCode::kAborted, absl::StatusCode::kOutOfRange, absl::StatusCode::kUnavailable,
        absl::StatusCode::kDataLoss}) {
    EXPECT_THAT(Sent(), ElementsAre(ElementsAre(1)));
    const BootTime failed = clock_.Read().boot;
    Answer(absl::Status(code, "later"));
    EXPECT_THAT(Sent(), IsEmpty());
    while (sent_.empty()) ASSERT_TRUE(strand_.RunNext());
    EXPECT_GE(clock_.Read().boot - failed, absl::Milliseconds(500));
    EXPECT_LE(clock_.Read().boot - failed, absl::Seconds(16));
  }
  Answer(Exporter::Response());
  EXPECT_EQ(counters_.exported.value(), 1);
  // The log is told once of the trouble, and of its end.
  ASSERT_EQ(sink_.records().size(), 2u);
  EXPECT_EQ(sink_.records()[0].message, "spans are not taken");
  EXPECT_EQ(sink_.records()[1].message, "spans are exported again");
}

TEST_F(ExporterTest, AReceiverThatIsBusyIsNotAskedBeforeItSaid) {
  End(1);
  strand_.Advance(absl::Seconds(1));
  Sent();
  Answer(status::WithRetryDelay(absl::ResourceExhaustedError("busy"), absl::Seconds(20)));
  strand_.Advance(absl::Seconds(19));
  EXPECT_THAT(Sent(), IsEmpty());
  strand_.Advance(absl::Seconds(7));
  EXPECT_THAT(Sent(), ElementsAre(ElementsAre(1)));
}

TEST_F(ExporterTest, WhatIsRefusedForGoodIsCountedAndNotSentAgain) {
  End(1);
  strand_.Advance(absl::Seconds(1));
  // Without a delay it will not recover, says OTLP.
  Answer(absl::ResourceExhaustedError("no"));
  End(2);
  strand_.Advance(absl::Seconds(1));
  Answer(absl::UnauthenticatedError("who?"));
  End(3);
  End(4);
  strand_.Advance(absl::Seconds(1));
  Exporter::Response partly;
  partly.mutable_partial_success()->set_rejected_spans(1);
  Answer(partly);
  EXPECT_THAT(Sent(), ElementsAre(ElementsAre(1), ElementsAre(2), ElementsAre(3, 4)));
  EXPECT_EQ(counters_.refused.value(), 3);
  EXPECT_EQ(counters_.exported.value(), 1);
  strand_.Advance(absl::Minutes(5));
  EXPECT_THAT(Sent(), IsEmpty());
}

TEST_F(ExporterTest, GivesABatchUpAfterAMinuteAndDropsWhatFindsNoRoom) {
  for (uint64_t span = 1; span <= 10; ++span) End(span);
  // Three in hand, five wait.
  EXPECT_EQ(counters_.queue_full.value(), 2);
  const BootTime begun = clock_.Read().boot;
  while (counters_.unreachable.value() == 0) {
    ASSERT_LT(clock_.Read().boot - begun, absl::Minutes(2));
    if (answers_.empty()) {
      ASSERT_TRUE(strand_.RunNext());
    } else {
      Answer(absl::UnavailableError("nobody"));
    }
  }
  EXPECT_GE(clock_.Read().boot - begun, absl::Minutes(1));
  EXPECT_EQ(counters_.unreachable.value(), 3);
  EXPECT_THAT(Sent().back(), ElementsAre(4, 5, 6));
}

TEST_F(ExporterTest, CloseSendsEverythingOnce) {
  for (uint64_t span = 1; span <= 5; ++span) End(span);
  bool closed = false;
  exporter_->Close([&] { closed = true; });
  Answer(Exporter::Response());
  EXPECT_FALSE(closed);
  Answer(Exporter::Response());
  EXPECT_TRUE(closed);
  EXPECT_THAT(Sent(), ElementsAre(ElementsAre(1, 2, 3), ElementsAre(4, 5)));
  EXPECT_EQ(counters_.exported.value(), 5);
}

TEST_F(ExporterTest, CloseDoesNotWaitForAReceiverThatIsGone) {
  for (uint64_t span = 1; span <= 5; ++span) End(span);
  Answer(absl::UnavailableError("nobody"));
  bool closed = false;
  exporter_->Close([&] { closed = true; });
  // What waited for its second try goes now.
  Answer(absl::UnavailableError("nobody"));
  EXPECT_TRUE(closed);
  EXPECT_EQ(counters_.unreachable.value(), 5);
}

}  // namespace
}  // namespace capstan::trace
