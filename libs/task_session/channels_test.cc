#include "libs/task_session/channels.h"

#include <string>

#include "gtest/gtest.h"
#include "libs/status/error.h"

namespace capstan::task_session {
namespace {

using telemetry::v1::TaskSessionFrame;

TaskSessionFrame Data(int32_t channel, size_t bytes) {
  TaskSessionFrame frame;
  frame.mutable_data()->set_channel(channel);
  frame.mutable_data()->set_data(std::string(bytes, 'x'));
  return frame;
}

TaskSessionFrame End(int32_t channel) {
  TaskSessionFrame frame;
  frame.set_end(channel);
  return frame;
}

TaskSessionFrame Credit(int32_t channel, int64_t bytes) {
  TaskSessionFrame frame;
  frame.mutable_credit()->set_channel(channel);
  frame.mutable_credit()->set_bytes(bytes);
  return frame;
}

TaskSessionFrame Open(int32_t channel) {
  TaskSessionFrame frame;
  frame.mutable_open()->set_channel(channel);
  return frame;
}

TaskSessionFrame Failure(int32_t channel) {
  TaskSessionFrame frame;
  frame.mutable_failure()->set_channel(channel);
  return frame;
}

class ChannelsTest : public testing::Test {
 protected:
  void Takes(const TaskSessionFrame& frame, bool expect_late = false) {
    bool late = false;
    EXPECT_TRUE(channels_.Receive(frame, &late).ok()) << frame.ShortDebugString();
    EXPECT_EQ(late, expect_late);
  }
  void Refuses(const TaskSessionFrame& frame) {
    bool late = false;
    EXPECT_EQ(status::Reason(channels_.Receive(frame, &late)), "BAD_FRAME")
        << frame.ShortDebugString();
  }
  Channels channels_;
};

TEST_F(ChannelsTest, SendsAsMuchAsItHasCreditFor) {
  ASSERT_TRUE(channels_.Open(0));
  EXPECT_EQ(channels_.Room(0), kWindowBytes);
  size_t sent = 0;
  while (channels_.Room(0) > 0) {
    EXPECT_EQ(channels_.Send(0, std::string(kFrameBytes, 'x')).data().channel(), 0);
    sent += kFrameBytes;
  }
  EXPECT_EQ(sent, kWindowBytes);
  Takes(Credit(0, 10));
  EXPECT_EQ(channels_.Room(0), 10u);
  Refuses(Credit(0, kWindowBytes));
  Refuses(Credit(0, 0));
  Refuses(Credit(0, -1));
}

TEST_F(ChannelsTest, TakesNoMoreThanItGaveCreditFor) {
  ASSERT_TRUE(channels_.Open(0));
  for (size_t i = 0; i < kWindowBytes / kFrameBytes; ++i) Takes(Data(0, kFrameBytes));
  Refuses(Data(0, 1));
}

TEST_F(ChannelsTest, CreditsWhatWasPassedOn) {
  ASSERT_TRUE(channels_.Open(0));
  for (size_t i = 0; i < kWindowBytes / kFrameBytes; ++i) Takes(Data(0, kFrameBytes));
  EXPECT_FALSE(channels_.Consumed(0, kWindowBytes / 2 - 1).has_value()) << "not worth a frame";
  const auto credit = channels_.Consumed(0, 1);
  ASSERT_TRUE(credit.has_value());
  EXPECT_EQ(credit->credit().bytes(), static_cast<int64_t>(kWindowBytes / 2));
  Takes(Data(0, kFrameBytes));
}

TEST_F(ChannelsTest, DirectionsEndApart) {
  ASSERT_TRUE(channels_.Open(0));
  EXPECT_TRUE(channels_.End(0).has_value());
  EXPECT_FALSE(channels_.End(0).has_value());
  EXPECT_EQ(channels_.Room(0), 0u);
  EXPECT_FALSE(channels_.IsGone(0));
  Takes(Data(0, 5));
  Takes(End(0));
  EXPECT_TRUE(channels_.IsGone(0));
  Takes(Data(0, 1), /*expect_late=*/true);
}

TEST_F(ChannelsTest, AfterThePeersEndNothingMayCome) {
  ASSERT_TRUE(channels_.Open(0));
  Takes(End(0));
  EXPECT_FALSE(channels_.IsGone(0));
  Refuses(Data(0, 1));
  Refuses(End(0));
  EXPECT_GT(channels_.Room(0), 0u) << "this end still sends";
  EXPECT_FALSE(channels_.Consumed(0, kWindowBytes).has_value()) << "nobody needs the credit";
}

TEST_F(ChannelsTest, WhatWasGivenUpHereMayStillBeSpokenOf) {
  ASSERT_TRUE(channels_.Open(0));
  EXPECT_EQ(channels_.Fail(0, "gone")->failure().message(), "gone");
  EXPECT_FALSE(channels_.Fail(0, "gone").has_value());
  Takes(Data(0, 1), true);
  Takes(End(0), true);
  Takes(Credit(0, 1), true);
  Takes(Failure(0), true);
}

TEST_F(ChannelsTest, NumbersOnlyRise) {
  Takes(Open(3));
  Refuses(Open(3));
  Refuses(Open(2));
  EXPECT_FALSE(channels_.Open(1));
  Refuses(Data(4, 1));
  Refuses(Failure(-1));
  Takes(Failure(3));
  Refuses(Open(3));
  Takes(Open(4));
}

TEST_F(ChannelsTest, ChannelsAreBounded) {
  for (size_t i = 0; i < kMostChannels; ++i) Takes(Open(static_cast<int32_t>(i)));
  Refuses(Open(kMostChannels));
  Takes(Failure(0));
  Takes(Open(kMostChannels));
}

TEST_F(ChannelsTest, FramesOfNoChannelAreRefused) {
  Refuses(TaskSessionFrame());
  ASSERT_TRUE(channels_.Open(0));
  Refuses(Data(0, kFrameBytes + 1));
}

}  // namespace
}  // namespace capstan::task_session
