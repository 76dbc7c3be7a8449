#include <gtest/gtest.h>

#include "absl/time/time.h"
#include "libs/session/fencing_token.h"
#include "libs/session/lower_side.h"
#include "libs/session/task_id.h"

namespace capstan::session {
namespace {

using capstan::type::v1::FencingToken;

FencingToken Token(int64_t incarnation, int64_t epoch) {
  FencingToken token;
  token.set_store_incarnation(incarnation);
  token.set_leader_epoch(epoch);
  return token;
}

TEST(TaskIdTest, PathRoundTripsAndSortsAsTheValue) {
  const TaskId a{"job", 9, "worker", 2};
  const TaskId b{"job", 10, "worker", 1};
  EXPECT_EQ(TaskId::FromPath(a.Path()).value(), a);
  EXPECT_LT(a, b);
  EXPECT_LT(a.Path(), b.Path());
  EXPECT_FALSE(TaskId::FromPath("job/1/worker").ok());
  // Another key for the same Task.
  EXPECT_FALSE(TaskId::FromPath("job/9/worker/2").ok());
  EXPECT_FALSE(TaskId::FromPath("job/+0000000000000000009/worker/0000000002").ok());
  EXPECT_EQ(TaskId::Of(a.ToProto()), a);
}

TEST(TaskIdTest, KeysThatCannotBeFolderNamesAreRefused) {
  EXPECT_TRUE(CheckTaskKey(TaskId{"0a-b", 1, "worker", 0}.ToProto()).ok());
  for (const TaskId& bad :
       {TaskId{"", 1, "w", 0}, TaskId{"..", 1, "w", 0}, TaskId{"a/b", 1, "w", 0},
        TaskId{"a", 0, "w", 0}, TaskId{"a", 1, "", 0}, TaskId{"a", 1, "w", -1}}) {
    EXPECT_FALSE(CheckTaskKey(bad.ToProto()).ok()) << bad.Path();
  }
}

TEST(FencingTokenTest, IncarnationGoesFirst) {
  EXPECT_TRUE(CompareTokens(Token(1, 9), Token(2, 1)) < 0);
  EXPECT_TRUE(CompareTokens(Token(2, 1), Token(2, 3)) < 0);
  EXPECT_TRUE(CompareTokens(Token(2, 3), Token(2, 3)) == 0);
  EXPECT_TRUE(CompareTokens(FencingToken(), Token(1, 1)) < 0);
}

TEST(RenewalBookTest, ConfirmationIsSendTimeLessAge) {
  RenewalBook book;
  const BootTime sent = BootTime::FromNanoseconds(5'000'000'000);
  const auto renewal = book.Send(sent);
  capstan::type::v1::RenewalAnswer answer;
  answer.set_sequence(renewal.sequence());
  *answer.mutable_confirmation_age() = ToProto(absl::Seconds(2));
  EXPECT_EQ(book.Answered(answer), sent - absl::Seconds(2));
  EXPECT_EQ(book.Answered(answer), absl::nullopt);
}

TEST(RenewalBookTest, OldestAreGivenUp) {
  RenewalBook book;
  for (int i = 0; i < 1000; ++i) book.Send(BootTime::FromNanoseconds(i));
  capstan::type::v1::RenewalAnswer answer;
  answer.set_sequence(1);
  EXPECT_EQ(book.Answered(answer), absl::nullopt);
  answer.set_sequence(1000);
  EXPECT_TRUE(book.Answered(answer).has_value());
}

TEST(BreakerTest, MoreThanTenAndMoreThanAFifth) {
  EXPECT_FALSE(BreakerRefuses(10, 10));
  EXPECT_TRUE(BreakerRefuses(11, 11));
  EXPECT_FALSE(BreakerRefuses(20, 100));
  EXPECT_TRUE(BreakerRefuses(21, 100));
}

TEST(DurationTest, SaturatesAndRefusesNegatives) {
  google::protobuf::Duration negative;
  negative.set_seconds(-5);
  EXPECT_EQ(FromProto(negative), absl::ZeroDuration());
  EXPECT_EQ(FromProto(ToProto(absl::Milliseconds(1500))), absl::Milliseconds(1500));
  EXPECT_EQ(ToProto(-absl::Seconds(1)).seconds(), 0);
  EXPECT_GT(FromProto(ToProto(absl::InfiniteDuration())), absl::Hours(24 * 365));
}

TEST(BuildersTest, MessagesStayBelowTheBoundAndBearTheFlags) {
  DesiredBuilder desired(Token(1, 2), 7, true);
  capstan::type::v1::DesiredTask task;
  task.mutable_launch()->add_argv(std::string(200'000, 'x'));
  for (int i = 0; i < 20; ++i) desired.Add(task);
  const auto messages = desired.Build(true);
  ASSERT_GT(messages.size(), 1u);
  int count = 0;
  for (size_t i = 0; i < messages.size(); ++i) {
    EXPECT_LT(messages[i].ByteSizeLong(), 1u << 20);
    EXPECT_EQ(messages[i].desired().sync_complete(), i + 1 == messages.size());
    EXPECT_TRUE(messages[i].desired().snapshot());
    count += messages[i].desired().tasks_size();
  }
  EXPECT_EQ(count, 20);

  ReportBuilder empty;
  EXPECT_TRUE(empty.Build(false, 0).empty());
  const auto complete = empty.Build(true, 12);
  ASSERT_EQ(complete.size(), 1u);
  EXPECT_TRUE(complete[0].observations().sync_complete());
  EXPECT_EQ(complete[0].observations().journal_sequence(), 12);
}

}  // namespace
}  // namespace capstan::session
