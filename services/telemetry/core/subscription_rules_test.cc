#include "services/telemetry/core/subscription_rules.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "libs/status/error.h"
#include "proto/capstan/telemetry/v1/subscription.pb.h"

namespace capstan::telemetry {
namespace {

constexpr char kName[] = "projects/p/subscriptions/s";

std::vector<std::string> WrongFields(const absl::Status& status) {
  std::vector<std::string> fields;
  for (const auto& violation : status::GetFieldViolations(status)) {
    fields.push_back(violation.field);
  }
  return fields;
}
using Fields = std::vector<std::string>;

v1::CreateSubscriptionRequest Create(const std::string& stream) {
  v1::CreateSubscriptionRequest request;
  request.set_parent("projects/p");
  request.set_subscription_id("s");
  request.set_stream(stream);
  return request;
}

TEST(SubscriptionRulesTest, OnlyStreamsOfItsOwnProjectAreRead) {
  for (const char* kind : {"log", "events", "metrics", "usage"}) {
    EXPECT_TRUE(
        CheckCreateSubscription(Create(std::string("projects/p/jobs/j/streams/") + kind)).ok());
  }
  for (const char* stream :
       {"projects/q/jobs/j/streams/log", "projects/pp/jobs/j/streams/log", "streams/audit", "",
        "projects/p/jobs/j/streams/other", "projects/p/../q/jobs/j/streams/log",
        "projects/p/jobs/j/streams/log/"}) {
    EXPECT_EQ(WrongFields(CheckCreateSubscription(Create(stream))), Fields{"stream"}) << stream;
  }
}

TEST(SubscriptionRulesTest, EverythingWrongIsToldAtOnce) {
  v1::CreateSubscriptionRequest request;
  request.set_parent("projects");
  request.set_subscription_id("Not An Id");
  request.set_position(static_cast<v1::CursorPosition>(9));
  request.set_request_id("again");
  EXPECT_EQ(WrongFields(CheckCreateSubscription(request)),
            (Fields{"parent", "subscription_id", "stream", "position", "request_id"}));
}

TEST(SubscriptionRulesTest, NamesAreWhole) {
  v1::GetSubscriptionRequest get;
  v1::DeleteSubscriptionRequest remove;
  v1::SubscribeRequest subscribe;
  for (const char* wrong : {"projects/p", "subscriptions/s", "projects/p/subscriptions/",
                            "projects/p/subscriptions/s/t", "projects/p/subscriptions/../s", ""}) {
    get.set_name(wrong);
    remove.set_name(wrong);
    subscribe.set_name(wrong);
    EXPECT_EQ(WrongFields(CheckGetSubscription(get)), Fields{"name"}) << wrong;
    EXPECT_EQ(WrongFields(CheckDeleteSubscription(remove)), Fields{"name"}) << wrong;
    EXPECT_EQ(WrongFields(CheckSubscribe(subscribe)), Fields{"name"}) << wrong;
  }
  get.set_name(kName);
  EXPECT_TRUE(CheckGetSubscription(get).ok());
  EXPECT_EQ(SubscriptionName("projects/p", "s"), kName);
  EXPECT_EQ(ParentOfSubscription(kName), "projects/p");
  v1::ListSubscriptionsRequest list;
  EXPECT_EQ(WrongFields(CheckListSubscriptions(list)), Fields{"parent"});
  list.set_parent("projects/p");
  EXPECT_TRUE(CheckListSubscriptions(list).ok());
}

TEST(SubscriptionRulesTest, ASeekHasOnePlace) {
  v1::SeekSubscriptionRequest seek;
  seek.set_name(kName);
  EXPECT_EQ(WrongFields(CheckSeekSubscription(seek)), Fields{"next_offset"});
  seek.set_next_offset(1);
  EXPECT_TRUE(CheckSeekSubscription(seek).ok());
  seek.set_position(v1::CURSOR_POSITION_NEWEST);
  EXPECT_EQ(WrongFields(CheckSeekSubscription(seek)), Fields{"next_offset"});
  seek.set_next_offset(0);
  EXPECT_TRUE(CheckSeekSubscription(seek).ok());
  seek.set_position(static_cast<v1::CursorPosition>(9));
  EXPECT_EQ(WrongFields(CheckSeekSubscription(seek)), Fields{"position"});
}

TEST(SubscriptionRulesTest, OffsetsBeginAtOne) {
  v1::AcknowledgeRequest request;
  request.set_name(kName);
  EXPECT_EQ(WrongFields(CheckAcknowledge(request)), Fields{"offset"});
  request.set_offset(1);
  EXPECT_TRUE(CheckAcknowledge(request).ok());
  request.set_reader_generation(-1);
  EXPECT_EQ(WrongFields(CheckAcknowledge(request)), Fields{"reader_generation"});
}

}  // namespace
}  // namespace capstan::telemetry
