#include "services/telemetry/core/subscription_book.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/status/error.h"
#include "libs/time/proto_time.h"
#include "proto/capstan/telemetry/v1/subscription.pb.h"
#include "services/telemetry/core/records.pb.h"

namespace capstan::telemetry {
namespace {

constexpr char kName[] = "projects/p/subscriptions/s";
constexpr char kLog[] = "projects/p/jobs/j/streams/log";
const absl::Time kNow = absl::FromUnixSeconds(1'700'000'000);

v1::CreateSubscriptionRequest Asked(const std::string& id, const std::string& project = "p") {
  v1::CreateSubscriptionRequest request;
  request.set_parent(absl::StrCat("projects/", project));
  request.set_subscription_id(id);
  request.set_stream(absl::StrCat("projects/", project, "/jobs/j/streams/log"));
  return request;
}

class SubscriptionBookTest : public testing::Test {
 protected:
  // As the engine does: decided, then stored.
  absl::Status Store(absl::StatusOr<core::SubscriptionRecord> record) {
    if (record.ok()) book_.Put(*record);
    return record.status();
  }
  absl::Status Create(const std::string& id, const std::string& project = "p") {
    return Store(book_.Create(Asked(id, project), 0, extent_, kNow));
  }
  absl::Status Acknowledge(int64_t offset, int64_t generation = 0) {
    v1::AcknowledgeRequest request;
    request.set_name(kName);
    request.set_offset(offset);
    request.set_reader_generation(generation);
    return Store(book_.Acknowledge(request, extent_));
  }
  absl::Status Seek(int64_t next, v1::CursorPosition position = v1::CURSOR_POSITION_UNSPECIFIED) {
    v1::SeekSubscriptionRequest request;
    request.set_name(kName);
    request.set_next_offset(next);
    request.set_position(position);
    return Store(book_.Seek(request, extent_));
  }
  int64_t Cursor() const { return book_.Find(kName)->acknowledged_offset(); }

  SubscriptionBook book_{{.of_one_project = 3, .subscriptions = 5}};
  // Records 11 to 20.
  StreamExtent extent_{11, 21};
};

TEST_F(SubscriptionBookTest, ANewOneBeginsWhereItIsTold) {
  ASSERT_TRUE(Create("s").ok());
  EXPECT_EQ(Cursor(), 10);
  EXPECT_EQ(book_.Find(kName)->stream(), kLog);
  EXPECT_EQ(ToTime(book_.Find(kName)->create_time()), kNow);
  v1::CreateSubscriptionRequest newest = Asked("t");
  newest.set_position(v1::CURSOR_POSITION_NEWEST);
  EXPECT_EQ(book_.Create(newest, 0, extent_, kNow)->acknowledged_offset(), 20);
  // Of a Stream that is yet to come both are its beginning.
  EXPECT_EQ(book_.Create(newest, 0, {}, kNow)->acknowledged_offset(), 0);
}

TEST_F(SubscriptionBookTest, ANameIsTakenButNotByTheSameRequest) {
  v1::CreateSubscriptionRequest request = Asked("s");
  request.set_request_id("0e6c2d2e-5c51-4f2c-8a0e-0a1b2c3d4e5f");
  ASSERT_TRUE(Store(book_.Create(request, 0, extent_, kNow)).ok());
  ASSERT_TRUE(Acknowledge(15).ok());
  // The answer was lost; meanwhile it was used.
  EXPECT_EQ(book_.Create(request, 0, extent_, kNow)->acknowledged_offset(), 15);
  request.set_stream("projects/p/jobs/j/streams/events");
  EXPECT_EQ(status::Reason(book_.Create(request, 0, extent_, kNow).status()),
            "SUBSCRIPTION_EXISTS");
  EXPECT_EQ(status::Reason(Create("s")), "SUBSCRIPTION_EXISTS");
}

TEST_F(SubscriptionBookTest, NumbersAreBounded) {
  for (const char* id : {"a", "b", "c"}) ASSERT_TRUE(Create(id).ok());
  EXPECT_EQ(status::Reason(Create("d")), "TOO_MANY_SUBSCRIPTIONS");
  ASSERT_TRUE(Create("a", "q").ok());
  // One that is being made counts.
  EXPECT_EQ(status::Reason(book_.Create(Asked("b", "q"), 1, extent_, kNow).status()),
            "TOO_MANY_SUBSCRIPTIONS");
  ASSERT_TRUE(Create("b", "q").ok());
  EXPECT_EQ(status::Reason(Create("c", "q")), "TOO_MANY_SUBSCRIPTIONS");
  book_.Remove("projects/p/subscriptions/a");
  EXPECT_TRUE(Create("c", "q").ok());
}

TEST_F(SubscriptionBookTest, AProjectsAreListedByName) {
  for (const char* id : {"b", "a"}) ASSERT_TRUE(Create(id).ok());
  ASSERT_TRUE(Create("c", "p-1").ok());
  std::vector<std::string> names;
  for (const auto* record : book_.List("projects/p")) names.push_back(record->name());
  EXPECT_EQ(names,
            (std::vector<std::string>{"projects/p/subscriptions/a", "projects/p/subscriptions/b"}));
  EXPECT_TRUE(book_.List("projects/none").empty());
  EXPECT_EQ(book_.List("").size(), 3u);
}

TEST_F(SubscriptionBookTest, OnlyTheNewestReaderAcknowledges) {
  ASSERT_TRUE(Create("s").ok());
  ASSERT_TRUE(Store(book_.Admit(kName, extent_)).ok());
  ASSERT_TRUE(Acknowledge(12, 1).ok());
  ASSERT_TRUE(Store(book_.Admit(kName, extent_)).ok());
  EXPECT_EQ(status::Reason(Acknowledge(14, 1)), "READER_REPLACED");
  EXPECT_EQ(Cursor(), 12);
  EXPECT_TRUE(Acknowledge(14, 2).ok());
  EXPECT_TRUE(Acknowledge(15, 0).ok()) << "who does not say is not compared";
  EXPECT_EQ(Cursor(), 15);
}

TEST_F(SubscriptionBookTest, AcknowledgingGoesForthAndNotBeyondTheEnd) {
  ASSERT_TRUE(Create("s").ok());
  EXPECT_TRUE(Acknowledge(20).ok());
  EXPECT_TRUE(Acknowledge(12).ok()) << "late, and harmless";
  EXPECT_EQ(Cursor(), 20);
  EXPECT_EQ(status::Reason(Acknowledge(21)), "OFFSET_NOT_THERE");
  EXPECT_EQ(Cursor(), 20);
  book_.Remove(kName);
  EXPECT_TRUE(absl::IsNotFound(Acknowledge(12)));
}

TEST_F(SubscriptionBookTest, ASeekGoesAnywhereInWhatIsKept) {
  ASSERT_TRUE(Create("s").ok());
  ASSERT_TRUE(Store(book_.Admit(kName, extent_)).ok());
  ASSERT_TRUE(Acknowledge(18, 1).ok());
  EXPECT_TRUE(Seek(11).ok());
  EXPECT_EQ(Cursor(), 10);
  EXPECT_EQ(status::Reason(Acknowledge(19, 1)), "READER_REPLACED")
      << "the reader of before must not undo it";
  EXPECT_TRUE(Seek(21).ok());
  EXPECT_EQ(Cursor(), 20);
  EXPECT_EQ(status::Reason(Seek(10)), "OFFSET_NOT_KEPT");
  EXPECT_EQ(status::Reason(Seek(22)), "OFFSET_NOT_THERE");
  EXPECT_TRUE(Seek(0, v1::CURSOR_POSITION_OLDEST).ok());
  EXPECT_EQ(Cursor(), 10);
  EXPECT_TRUE(Seek(0, v1::CURSOR_POSITION_NEWEST).ok());
  EXPECT_EQ(Cursor(), 20);
}

TEST_F(SubscriptionBookTest, ACursorThatRetentionHasPassedSaysWhatIsThere) {
  ASSERT_TRUE(Create("s").ok());
  ASSERT_TRUE(Acknowledge(12).ok());
  // Record 13 is the oldest: nothing is lost yet.
  EXPECT_TRUE(book_.Admit(kName, {13, 21}).ok());
  const absl::Status expired = book_.Admit(kName, {16, 21}).status();
  EXPECT_TRUE(absl::IsOutOfRange(expired));
  const auto info = status::GetErrorInfo(expired);
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->reason, "CURSOR_EXPIRED");
  EXPECT_EQ(info->metadata.at("next_offset"), "13");
  EXPECT_EQ(info->metadata.at("first_offset"), "16");
  EXPECT_EQ(info->metadata.at("lost_records"), "3");
  EXPECT_NE(expired.message().find("capstan subscription seek s --to 16"), absl::string_view::npos)
      << expired;
  // Also if nothing is kept.
  EXPECT_EQ(status::Reason(book_.Admit(kName, {21, 21}).status()), "CURSOR_EXPIRED");
  extent_ = {16, 21};
  ASSERT_TRUE(Seek(16).ok());
  EXPECT_TRUE(book_.Admit(kName, extent_).ok());
}

TEST_F(SubscriptionBookTest, AStreamThatEndsBeforeTheCursorIsNotTheSame) {
  ASSERT_TRUE(Create("s").ok());
  ASSERT_TRUE(Acknowledge(20).ok());
  EXPECT_TRUE(book_.Admit(kName, extent_).ok());
  EXPECT_EQ(status::Reason(book_.Admit(kName, {1, 20}).status()), "CURSOR_BEYOND_END");
  EXPECT_EQ(status::Reason(book_.Admit(kName, {}).status()), "CURSOR_BEYOND_END");
}

TEST_F(SubscriptionBookTest, OnceBeyondTheEndItStaysSoUntilASeek) {
  ASSERT_TRUE(Create("s").ok());
  ASSERT_TRUE(Acknowledge(20).ok());
  EXPECT_FALSE(MarkIfBeyondEnd(*book_.Find(kName), extent_).has_value());
  const auto marked = MarkIfBeyondEnd(*book_.Find(kName), {1, 20});
  ASSERT_TRUE(marked.has_value());
  EXPECT_EQ(marked->acknowledged_offset(), 20);
  EXPECT_FALSE(MarkIfBeyondEnd(*marked, {1, 20}).has_value()) << "it is known";
  book_.Put(*marked);
  // The Stream grows past the cursor.
  extent_ = {1, 31};
  EXPECT_EQ(status::Reason(book_.Admit(kName, extent_).status()), "CURSOR_BEYOND_END");
  EXPECT_EQ(status::Reason(Acknowledge(25)), "CURSOR_BEYOND_END");
  EXPECT_EQ(LagOf(*book_.Find(kName), extent_), 30);
  EXPECT_TRUE(ToSubscription(*book_.Find(kName), extent_, false).beyond_end());
  ASSERT_TRUE(Seek(1).ok());
  EXPECT_TRUE(book_.Admit(kName, extent_).ok());
  EXPECT_FALSE(ToSubscription(*book_.Find(kName), extent_, false).beyond_end());
}

TEST_F(SubscriptionBookTest, LagAndLossAreShown) {
  ASSERT_TRUE(Create("s").ok());
  ASSERT_TRUE(Acknowledge(12).ok());
  const v1::Subscription shown = ToSubscription(*book_.Find(kName), {16, 21}, true);
  EXPECT_EQ(shown.lag_records(), 8);
  EXPECT_EQ(shown.lost_records(), 3);
  EXPECT_EQ(shown.first_kept_offset(), 16);
  EXPECT_EQ(shown.last_offset(), 20);
  EXPECT_TRUE(shown.reading());
  const v1::Subscription even = ToSubscription(*book_.Find(kName), {1, 13}, false);
  EXPECT_EQ(even.lag_records(), 0);
  EXPECT_EQ(even.lost_records(), 0);
}

}  // namespace
}  // namespace capstan::telemetry
