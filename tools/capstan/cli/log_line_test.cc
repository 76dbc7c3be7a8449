#include "tools/capstan/cli/log_line.h"

#include "gtest/gtest.h"
#include "proto/capstan/event/v1/job_event.pb.h"

namespace capstan::cli {
namespace {

TEST(LogLineTest, BeginsWithTheRank) {
  telemetry::v1::Record record;
  record.set_kind("log");
  record.set_payload("step 1");
  (*record.mutable_attributes())["rank"] = "3";
  EXPECT_EQ(FormatLogLine(record, {.rank = true, .time = false}, Terminal()), "[3] step 1");
  EXPECT_EQ(FormatLogLine(record, {.rank = false, .time = false}, Terminal()), "step 1");
}

TEST(LogLineTest, ATerminalDoesNotObeyATask) {
  telemetry::v1::Record record;
  record.set_payload("\x1b[31mred");
  (*record.mutable_attributes())["rank"] = "\x1b[2J";
  EXPECT_EQ(FormatLogLine(record, {.rank = true, .time = false}, Terminal()).find('\x1b'),
            std::string::npos);
}

TEST(LogLineTest, AGapIsShown) {
  event::v1::GapRecord gap;
  gap.set_dropped_bytes(2048);
  gap.set_reason("SPILL_FULL");
  telemetry::v1::Record record;
  record.set_kind("gap");
  record.set_payload(gap.SerializeAsString());
  EXPECT_EQ(FormatLogLine(record, {}, Terminal()), "[gap] 2.0 KiB were dropped here: SPILL_FULL");
}

}  // namespace
}  // namespace capstan::cli
