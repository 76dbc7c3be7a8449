#include "services/telemetry/subscription_engine.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/status/error.h"
#include "proto/capstan/telemetry/v1/subscription.pb.h"
#include "services/telemetry/ports/subscriptions.h"
#include "services/telemetry/testing/subscription_world.h"

namespace capstan::telemetry {
namespace {

using Offsets = std::vector<int64_t>;

TEST(SubscriptionEngineTest, ItGoesOnBehindWhatWasAcknowledgedAlsoAfterARestart) {
  World world;
  world.Append(5);
  ASSERT_TRUE(world.Create().ok());
  EXPECT_EQ(world.ReadAll(), (Offsets{1, 2, 3, 4, 5}));
  EXPECT_EQ(world.ReadAll(), (Offsets{1, 2, 3, 4, 5})) << "nothing was acknowledged";
  EXPECT_TRUE(world.Acknowledge(3, 2).ok());
  world.Start();
  EXPECT_EQ(world.ReadAll(), (Offsets{4, 5}));
  EXPECT_TRUE(world.Acknowledge(5, 3).ok());
  EXPECT_EQ(world.ReadAll(), Offsets());
  world.Append(1);
  EXPECT_EQ(world.ReadAll(), Offsets{6});
  EXPECT_EQ(world.Get()->lag_records(), 1);
}

TEST(SubscriptionEngineTest, ANewOneMayBeginWithWhatComes) {
  World world;
  world.Append(5);
  EXPECT_EQ(world.Create("s", v1::CURSOR_POSITION_NEWEST)->acknowledged_offset(), 5);
  const auto reader = world.Connect();
  world.Run();
  EXPECT_TRUE(reader->caught_up);
  world.Append(2);
  world.Run();
  EXPECT_EQ(reader->Offsets(), (Offsets{6, 7}));
  EXPECT_EQ(reader->records[0].payload(), absl::StrCat(kLog, "#6"));
}

TEST(SubscriptionEngineTest, ANewReaderTakesOver) {
  World world;
  world.Append(4);
  ASSERT_TRUE(world.Create().ok());
  const auto first = world.Connect();
  world.Run();
  EXPECT_EQ(first->Offsets(), (Offsets{1, 2, 3, 4}));
  EXPECT_TRUE(world.Acknowledge(2, first->generation).ok());
  const auto second = world.Connect();
  world.Run();
  ASSERT_TRUE(first->end.has_value());
  EXPECT_EQ(status::Reason(*first->end), "READER_REPLACED");
  EXPECT_EQ(second->Offsets(), (Offsets{3, 4}));
  EXPECT_EQ(status::Reason(world.Acknowledge(4, first->generation)), "READER_REPLACED");
  EXPECT_EQ(world.Get()->acknowledged_offset(), 2);
  world.Append(1);
  world.Run();
  EXPECT_EQ(first->records.size(), 4u);
  EXPECT_EQ(second->Offsets(), (Offsets{3, 4, 5}));
  EXPECT_TRUE(world.Acknowledge(5, second->generation).ok());
  EXPECT_TRUE(world.Get()->reading());
  EXPECT_EQ(world.streams().readers(), 1u);
  second->Disconnect();
  world.Run();
  EXPECT_FALSE(world.Get()->reading());
}

TEST(SubscriptionEngineTest, WhatRetentionHasPassedIsAnErrorThatSaysFromWhereOn) {
  World world;
  world.Append(10);
  ASSERT_TRUE(world.Create().ok());
  ASSERT_TRUE(world.Acknowledge(2, 0).ok());
  world.disk[kLog].Drop(6);
  const auto reader = world.Connect();
  world.Run();
  ASSERT_TRUE(reader->end.has_value());
  EXPECT_TRUE(absl::IsOutOfRange(*reader->end));
  EXPECT_EQ(status::GetErrorInfo(*reader->end)->metadata.at("first_offset"), "7");
  EXPECT_EQ(status::GetErrorInfo(*reader->end)->metadata.at("lost_records"), "4");
  EXPECT_TRUE(reader->records.empty());
  EXPECT_EQ(world.Get()->lost_records(), 4);
  ASSERT_TRUE(world.Seek(7).ok());
  EXPECT_EQ(world.ReadAll(), (Offsets{7, 8, 9, 10}));
}

TEST(SubscriptionEngineTest, AReaderThatRetentionOvertakesIsToldBehindWhatItGot) {
  World world(/*piece=*/2);
  world.Append(10);
  ASSERT_TRUE(world.Create().ok());
  const auto reader = world.Connect();
  // Its first piece, then it is slow.
  reader->room = 1;
  world.Run();
  ASSERT_EQ(reader->Offsets(), (Offsets{1, 2}));
  world.disk[kLog].Drop(7);
  reader->Drain();
  world.Run();
  ASSERT_TRUE(reader->end.has_value());
  EXPECT_EQ(status::Reason(*reader->end), "CURSOR_EXPIRED");
  const int64_t got = reader->records.back().offset();
  EXPECT_EQ(status::GetErrorInfo(*reader->end)->metadata.at("next_offset"), absl::StrCat(got + 1));
  EXPECT_EQ(status::GetErrorInfo(*reader->end)->metadata.at("first_offset"), "8");
  EXPECT_FALSE(world.Get()->reading());
}

TEST(SubscriptionEngineTest, AGapThatAProducerReportsIsARecord) {
  World world;
  world.Append(1);
  world.disk[kLog].Append("lost on the Node", "gap");
  world.Append(1);
  ASSERT_TRUE(world.Create().ok());
  EXPECT_EQ(world.ReadAll(), (Offsets{1, 2, 3}));
}

TEST(SubscriptionEngineTest, SeekAndDeleteEndTheReader) {
  World world;
  world.Append(3);
  ASSERT_TRUE(world.Create().ok());
  const auto moved = world.Connect();
  world.Run();
  ASSERT_TRUE(world.Acknowledge(3, moved->generation).ok());
  ASSERT_TRUE(world.Seek(2).ok());
  EXPECT_EQ(status::Reason(*moved->end), "CURSOR_MOVED");
  EXPECT_EQ(status::Reason(world.Acknowledge(3, moved->generation)), "READER_REPLACED");
  const auto deleted = world.Connect();
  world.Run();
  EXPECT_EQ(deleted->Offsets(), (Offsets{2, 3}));
  ASSERT_TRUE(world.Delete().ok());
  EXPECT_EQ(status::Reason(*deleted->end), "SUBSCRIPTION_DELETED");
  EXPECT_TRUE(absl::IsNotFound(world.Get().status()));
  EXPECT_TRUE(absl::IsNotFound(world.Delete()));
  EXPECT_TRUE(absl::IsNotFound(world.Acknowledge(1, 0)));
  world.Start();
  EXPECT_TRUE(world.engine().List("projects/p").empty());
}

TEST(SubscriptionEngineTest, ActsAreAuditedOrDoNotHappen) {
  World world;
  world.Append(3);
  ASSERT_TRUE(world.Create().ok());
  ASSERT_TRUE(world.Seek(2).ok());
  world.ReadAll();
  ASSERT_TRUE(world.Acknowledge(3, 0).ok());
  ASSERT_EQ(world.audit.entries.size(), 2u) << "to read is no such act";
  EXPECT_EQ(world.audit.entries[0].principal, kPerson);
  EXPECT_EQ(world.audit.entries[0].resource, kName);
  EXPECT_EQ(world.audit.entries[0].act,
            "/capstan.telemetry.v1.SubscriptionService/CreateSubscription");
  EXPECT_EQ(world.audit.entries[1].message, absl::StrCat("cursor from 0 to 1 in ", kLog));
  world.audit.failure = absl::UnavailableError("no disk");
  EXPECT_TRUE(absl::IsUnavailable(world.Seek(1)));
  EXPECT_TRUE(absl::IsUnavailable(world.Delete()));
  EXPECT_TRUE(absl::IsUnavailable(world.Create("t").status()));
  EXPECT_EQ(world.Get()->acknowledged_offset(), 3);
  EXPECT_EQ(world.subscriptions.size(), 1u);
}

TEST(SubscriptionEngineTest, WhatIsNotStoredIsNotAnswered) {
  World world;
  world.Append(3);
  ASSERT_TRUE(world.Create().ok());
  world.store().Fail(absl::ResourceExhaustedError("NO_SPACE"));
  EXPECT_TRUE(absl::IsResourceExhausted(world.Acknowledge(2, 0)));
  EXPECT_TRUE(absl::IsResourceExhausted(world.Seek(2)));
  EXPECT_TRUE(absl::IsResourceExhausted(world.Delete()));
  EXPECT_TRUE(absl::IsResourceExhausted(world.Create("t").status()));
  const auto reader = world.Connect();
  world.Run();
  EXPECT_TRUE(absl::IsResourceExhausted(*reader->end));
  EXPECT_EQ(world.Get()->acknowledged_offset(), 0);
  world.store().Fail(absl::OkStatus());
  EXPECT_TRUE(world.Acknowledge(2, 0).ok());
  EXPECT_EQ(world.ReadAll(), Offsets{3});
}

TEST(SubscriptionEngineTest, AnAnswerWaitsForTheDiskAndARoomIsBounded) {
  SubscriptionEngine::Options options;
  options.max_waiting = 4;
  World world(3, options);
  world.Append(20);
  ASSERT_TRUE(world.Create().ok());
  world.store().Hold();
  std::vector<std::string> answers;
  for (int64_t offset = 1; offset <= 8; ++offset) {
    world.StartAcknowledge(offset, 0, [&](const absl::StatusOr<v1::AcknowledgeResponse>& got) {
      answers.push_back(got.ok() ? absl::StrCat(got->acknowledged_offset())
                                 : status::Reason(got.status()));
    });
  }
  world.Run();
  EXPECT_EQ(answers, std::vector<std::string>(3, "SUBSCRIPTION_BUSY"));
  answers.clear();
  while (world.store().Step()) world.Run();
  EXPECT_EQ(answers, (std::vector<std::string>{"1", "2", "3", "4", "5"}));
}

TEST(SubscriptionEngineTest, StreamsThatAreReadKeepTheirNewestSegment) {
  World world;
  EXPECT_TRUE(world.streams().kept().empty());
  ASSERT_TRUE(world.Create().ok());
  EXPECT_EQ(world.streams().kept(), std::set<std::string>{kLog});
  world.Start();
  EXPECT_EQ(world.streams().kept(), std::set<std::string>{kLog}) << "known before retention begins";
  ASSERT_TRUE(world.Delete().ok());
  EXPECT_TRUE(world.streams().kept().empty());
}

TEST(SubscriptionEngineTest, LagIsAMetricAndAList) {
  World world;
  world.Append(10);
  ASSERT_TRUE(world.Create().ok());
  ASSERT_TRUE(world.Create("t").ok());
  ASSERT_TRUE(world.Acknowledge(4, 0).ok());
  world.strand().Advance(absl::Minutes(1));
  EXPECT_NE(world.Metrics().find("capstan_telemetry_subscription_lag_records 16\n"),
            std::string::npos);
  EXPECT_NE(world.Metrics().find("capstan_telemetry_largest_subscription_lag_records 10\n"),
            std::string::npos);
  EXPECT_NE(world.Metrics().find("capstan_telemetry_expired_subscriptions 0\n"), std::string::npos);
  world.disk[kLog].Drop(3);
  world.strand().Advance(absl::Minutes(1));
  EXPECT_NE(world.Metrics().find("capstan_telemetry_expired_subscriptions 1\n"), std::string::npos)
      << world.Metrics();
  const auto all = world.engine().List("projects/p");
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].lag_records(), 6);
  EXPECT_EQ(all[1].lost_records(), 3);
  // A Stream that can't be read keeps what was known of it.
  world.streams().Fail(absl::DataLossError("damaged"));
  world.strand().Advance(absl::Minutes(2));
  EXPECT_EQ(world.engine().List("projects/p")[0].lag_records(), 6);
}

TEST(SubscriptionEngineTest, StoppingEndsReadersAndTakesNothingNew) {
  World world;
  world.Append(3);
  ASSERT_TRUE(world.Create().ok());
  const auto reader = world.Connect();
  world.Run();
  world.engine().Stop();
  EXPECT_TRUE(absl::IsUnavailable(*reader->end));
  EXPECT_TRUE(absl::IsUnavailable(world.Acknowledge(1, 0)));
  const auto late = world.Connect();
  EXPECT_TRUE(absl::IsUnavailable(*late->end));
}

}  // namespace
}  // namespace capstan::telemetry
