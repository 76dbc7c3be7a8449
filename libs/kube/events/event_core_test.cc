#include "libs/kube/events/event_core.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/kube/client/server_error.h"

namespace capstan::kube {
namespace {

const absl::Time kWall = absl::FromUnixSeconds(1'800'000'000);

EventOptions Options() {
  EventOptions options;
  options.reporting_controller = "example.org/parts";
  options.reporting_instance = "parts-0";
  options.max_series = 4;
  options.max_calls = 2;
  options.max_tries = 3;
  return options;
}

EventRecord Record(const std::string& name = "web-0", const std::string& reason = "Broke") {
  EventRecord record;
  record.regarding.set_api_version("v1");
  record.regarding.set_kind("Pod");
  record.regarding.set_namespace_("space");
  record.regarding.set_name(name);
  record.reason = reason;
  record.action = "Run";
  record.note = "it broke";
  return record;
}

class EventCoreTest : public ::testing::Test {
 protected:
  Now At(int seconds) const {
    return {kWall + absl::Seconds(seconds), BootTime() + absl::Seconds(seconds)};
  }
  bool Add(const EventRecord& record, int seconds) { return core_.Add(record, At(seconds)); }
  // The calls of now, each answered well.
  std::vector<EventCall> Write(int seconds, const absl::Status& answer = absl::OkStatus()) {
    const std::vector<EventCall> calls = core_.TakeDue(At(seconds).boot);
    for (const EventCall& call : calls) core_.OnAnswer(call.series, answer, At(seconds).boot);
    return calls;
  }
  static absl::Status Refusal(int code) { return ServerError(code, {}, ""); }
  int64_t Wake() const { return absl::ToInt64Seconds(core_.NextWake() - BootTime()); }
  EventStats stats() const { return core_.stats(); }

  Random random_{1};
  EventCore core_{Options(), &random_};
};

TEST_F(EventCoreTest, TheFirstMakesAnEvent) {
  EventRecord record = Record();
  record.type = EventType::kWarning;
  record.related = Record("other").regarding;
  ASSERT_TRUE(Add(record, 0));
  const auto calls = Write(0);
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_FALSE(calls[0].is_patch);
  const events_v1::Event& event = calls[0].event;
  EXPECT_EQ(event.metadata().namespace_(), "space");
  EXPECT_EQ(event.metadata().name(), "web-0.18fae27693b40000");
  EXPECT_EQ(event.event_time().seconds(), 1'800'000'000);
  EXPECT_FALSE(event.has_series());
  EXPECT_EQ(event.reporting_controller(), "example.org/parts");
  EXPECT_EQ(event.reporting_instance(), "parts-0");
  EXPECT_EQ(event.reason(), "Broke");
  EXPECT_EQ(event.action(), "Run");
  EXPECT_EQ(event.note(), "it broke");
  EXPECT_EQ(event.type(), "Warning");
  EXPECT_EQ(event.regarding().name(), "web-0");
  EXPECT_EQ(event.related().name(), "other");
  EXPECT_TRUE(core_.idle());
  EXPECT_EQ(stats(), (EventStats{1, 0, 1, 0}));
  EXPECT_EQ(core_.NextWake(), BootTime::InfiniteFuture());
}

TEST_F(EventCoreTest, MoreOfTheSameCountsAtMostOnceAnInterval) {
  Add(Record(), 0);
  Write(0);
  for (int t = 1; t <= 5; ++t) {
    EventRecord again = Record();
    again.note = "another note";
    again.regarding.set_resource_version(absl::StrCat(t));
    Add(again, t);
  }
  EXPECT_EQ(Wake(), 60);
  EXPECT_TRUE(Write(59).empty());
  auto calls = Write(60);
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_TRUE(calls[0].is_patch);
  EXPECT_EQ(calls[0].event.metadata().name(), "web-0.18fae27693b40000");
  EXPECT_EQ(calls[0].patch,
            R"({"series":{"count":6,"lastObservedTime":"2027-01-15T08:00:05.000000Z"}})");
  EXPECT_EQ(stats(), (EventStats{6, 0, 6, 0}));
  // The next one waits from the last write on.
  Add(Record(), 61);
  EXPECT_EQ(Wake(), 120);
  calls = Write(300);
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_TRUE(absl::StrContains(calls[0].patch, "\"count\":7"));
}

TEST_F(EventCoreTest, WhatDiffersIsAnotherSeries) {
  Add(Record(), 0);
  EventRecord other = Record();
  other.type = EventType::kWarning;
  Add(other, 0);
  other = Record();
  other.action = "Stop";
  Add(other, 0);
  other = Record();
  other.related = Record("r").regarding;
  Add(other, 0);
  EXPECT_EQ(core_.series(), 4u);
  // Two at a time; and of one moment each has a name.
  const auto calls = core_.TakeDue(At(0).boot);
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_NE(calls[0].event.metadata().name(), calls[1].event.metadata().name());
  EXPECT_EQ(core_.NextWake(), BootTime::InfiniteFuture());
  core_.OnAnswer(calls[1].series, absl::OkStatus(), At(0).boot);
  EXPECT_EQ(core_.TakeDue(At(0).boot).size(), 1u);
}

TEST_F(EventCoreTest, WhatComesDuringAWriteIsWrittenAfterIt) {
  Add(Record(), 0);
  const auto calls = core_.TakeDue(At(0).boot);
  Add(Record(), 1);
  EXPECT_TRUE(core_.TakeDue(At(100).boot).empty());
  core_.OnAnswer(calls[0].series, absl::OkStatus(), At(2).boot);
  EXPECT_EQ(Wake(), 62);
  EXPECT_TRUE(absl::StrContains(Write(62)[0].patch, "\"count\":2"));
}

TEST_F(EventCoreTest, ASeriesEnds) {
  Add(Record(), 0);
  Write(0);
  Add(Record(), 359);
  Write(359);
  Add(Record(), 359 + 360);
  const auto calls = Write(359 + 360);
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_FALSE(calls[0].is_patch);
  EXPECT_FALSE(calls[0].event.has_series());
  EXPECT_EQ(core_.series(), 1u);
}

TEST_F(EventCoreTest, MemoryIsBoundAndDropsAreCounted) {
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(Add(Record(absl::StrCat("p", i)), i));
  EXPECT_FALSE(Add(Record("p4"), 5));
  EXPECT_TRUE(Add(Record("p0"), 5)) << "it has its place";
  EXPECT_EQ(stats().dropped, 1);
  // What has been written makes room, the oldest first.
  while (!Write(6).empty()) {
  }
  EXPECT_TRUE(Add(Record("p5"), 7));
  EXPECT_EQ(core_.series(), 4u);
  Add(Record("p2"), 8);
  EXPECT_EQ(core_.series(), 4u) << "p1 had to go, not p2";
}

TEST_F(EventCoreTest, FailuresThatMayPassAreTriedAgain) {
  Add(Record(), 0);
  EXPECT_EQ(Write(0, Refusal(503)).size(), 1u);
  EXPECT_GE(Wake(), 10);
  EXPECT_LE(Wake(), 12);
  Add(Record(), 11);
  auto calls = Write(13, absl::UnavailableError("no connection"));
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_FALSE(calls[0].is_patch);
  EXPECT_EQ(calls[0].event.series().count(), 2);
  // The third and last.
  EXPECT_EQ(Write(30, Refusal(429)).size(), 1u);
  EXPECT_EQ(stats(), (EventStats{2, 0, 0, 2}));
  EXPECT_TRUE(core_.idle());
  // The next one of it tries anew.
  Add(Record(), 31);
  EXPECT_EQ(Write(100)[0].event.series().count(), 3);
  EXPECT_EQ(stats(), (EventStats{3, 0, 1, 2}));
}

TEST_F(EventCoreTest, RefusalsAreFinalAndRateLimited) {
  Add(Record(), 0);
  Write(0, Refusal(403));
  EXPECT_EQ(stats(), (EventStats{1, 0, 0, 1}));
  Add(Record(), 1);
  EXPECT_EQ(Wake(), 60);
}

TEST_F(EventCoreTest, ALostAnswerOfACreationIsFound) {
  Add(Record(), 0);
  Write(0, absl::UnavailableError("broken"));
  Write(13, absl::AlreadyExistsError("it is there"));
  EXPECT_EQ(stats(), (EventStats{1, 0, 1, 0}));
  Add(Record(), 14);
  EXPECT_TRUE(Write(100)[0].is_patch);
}

TEST_F(EventCoreTest, WhatTheServerForgotIsMadeAnew) {
  Add(Record(), 0);
  Write(0);
  Add(Record(), 1);
  EXPECT_TRUE(Write(60, absl::NotFoundError("it is forgotten"))[0].is_patch);
  const auto calls = Write(60);
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_FALSE(calls[0].is_patch);
  EXPECT_EQ(calls[0].event.series().count(), 2);
  EXPECT_EQ(stats().written, 2);
}

TEST_F(EventCoreTest, AFlushWaitsForNothingAndTriesOnce) {
  Add(Record(), 0);
  Write(0);
  Add(Record(), 1);
  Add(Record("other"), 1);
  core_.Flush();
  EXPECT_EQ(Write(1, Refusal(503)).size(), 2u);
  EXPECT_TRUE(core_.idle());
  EXPECT_EQ(stats(), (EventStats{3, 0, 1, 2}));
}

TEST_F(EventCoreTest, WhatIsAbandonedHasFailed) {
  Add(Record(), 0);
  core_.TakeDue(At(0).boot);
  Add(Record("other"), 0);
  core_.Abandon();
  EXPECT_EQ(stats(), (EventStats{2, 0, 0, 2}));
  EXPECT_TRUE(core_.idle());
}

TEST_F(EventCoreTest, NamesAndNotesAreOnesThatTheServerTakes) {
  EventRecord record = Record("system:node");
  record.regarding.clear_namespace_();
  record.note = std::string(1023, 'x') + "ä";
  Add(record, 0);
  const auto event = Write(0)[0].event;
  EXPECT_EQ(event.metadata().name().size(), 36u);
  EXPECT_EQ(event.metadata().namespace_(), "default");
  EXPECT_EQ(event.note(), std::string(1023, 'x'));
}

}  // namespace
}  // namespace capstan::kube
