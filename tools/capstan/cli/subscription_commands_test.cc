#include "tools/capstan/cli/subscription_commands.h"

#include <string>

#include "gtest/gtest.h"
#include "proto/capstan/event/v1/job_event.pb.h"
#include "proto/capstan/telemetry/v1/stream.pb.h"

namespace capstan::cli {
namespace {

TEST(SubscriptionCommandsTest, StreamsAreNamedByTheirJob) {
  EXPECT_EQ(StreamName("vision", "digits"), "projects/vision/jobs/digits/streams/log");
  EXPECT_EQ(StreamName("projects/vision", "digits/events"),
            "projects/vision/jobs/digits/streams/events");
  EXPECT_EQ(StreamName("vision", "projects/p/jobs/j/streams/usage"),
            "projects/p/jobs/j/streams/usage");
}

TEST(SubscriptionCommandsTest, ARecordIsALineThatMovesNoCursor) {
  telemetry::v1::Record record;
  record.set_offset(42);
  record.set_kind("log");
  record.mutable_event_time()->set_seconds(1'700'000'000);
  record.set_payload("step 1\x1b[2J\n");
  EXPECT_EQ(RecordLine(record), "42 2023-11-14T22:13:20+00:00 log step 1\\x1b[2J");
  event::v1::JobEvent event;
  event.set_state("RUNNING");
  event.set_reason("STARTED");
  event.set_message("on 2 Nodes");
  record.set_kind("job_event");
  record.set_payload(event.SerializeAsString());
  EXPECT_EQ(RecordLine(record),
            "42 2023-11-14T22:13:20+00:00 job_event RUNNING STARTED on 2 Nodes");
  event::v1::GapRecord gap;
  gap.set_dropped_records(7);
  gap.set_reason("SPILL_FULL");
  record.set_kind("gap");
  record.set_payload(gap.SerializeAsString());
  EXPECT_EQ(RecordLine(record), "42 2023-11-14T22:13:20+00:00 gap 7 records are gone: SPILL_FULL");
  record.set_kind("usage");
  record.set_payload(std::string("\0\1\2", 3));
  EXPECT_EQ(RecordLine(record), "42 2023-11-14T22:13:20+00:00 usage 3 bytes");
}

}  // namespace
}  // namespace capstan::cli
