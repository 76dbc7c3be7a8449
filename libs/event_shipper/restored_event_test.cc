#include "libs/event_shipper/restored_event.h"

#include <string>

#include "gtest/gtest.h"
#include "libs/event_shipper/event_record.h"
#include "proto/capstan/telemetry/v1/stream.pb.h"

namespace capstan {
namespace {

telemetry::v1::Record RecordOf(const std::string& value) {
  telemetry::v1::AppendRecordsRequest request;
  EXPECT_TRUE(request.ParseFromString(value));
  EXPECT_EQ(request.records_size(), 1);
  return request.records(0);
}

TEST(RestoredEventsTest, EventsKeepTheirIdentityAndOrderUnderLowNumbers) {
  RestoredEvents events("scheduler", 77);
  std::string first_key = "/capstan/scheduler/v1/outbox/0000000a00000005";
  std::string second_key = "/capstan/scheduler/v1/outbox/0000000b00000001";
  std::string first = OutboxPayload("s", telemetry::v1::Record());
  std::string second = first;
  events.Prepare(&first_key, &first);
  events.Prepare(&second_key, &second);
  EXPECT_EQ(first_key, "/capstan/scheduler/v1/outbox/0000000000000001");
  EXPECT_EQ(second_key, "/capstan/scheduler/v1/outbox/0000000000000002");
  EXPECT_EQ(RecordOf(first).producer(), "scheduler@77");
  EXPECT_EQ(RecordOf(first).producer_sequence(), 0xa00000005);
  EXPECT_EQ(RecordOf(second).producer_sequence(), 0xb00000001);

  // Not shipped before the next backup: it is still the event of the first store.
  RestoredEvents again("scheduler", 99);
  again.Prepare(&first_key, &first);
  EXPECT_EQ(RecordOf(first).producer(), "scheduler@77");
  EXPECT_EQ(RecordOf(first).producer_sequence(), 0xa00000005);
}

TEST(RestoredEventsTest, OtherRecordsStayAsTheyAre) {
  RestoredEvents events("scheduler", 77);
  std::string key = "/capstan/scheduler/v1/jobs/state/u";
  std::string value = "anything";
  events.Prepare(&key, &value);
  EXPECT_EQ(key, "/capstan/scheduler/v1/jobs/state/u");
  EXPECT_EQ(value, "anything");
  std::string damaged_key = "/capstan/scheduler/v1/outbox/zz";
  events.Prepare(&damaged_key, &value);
  EXPECT_EQ(value, "anything");
}

}  // namespace
}  // namespace capstan
