#include "services/telemetry/core/stream_rules.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/auth/spiffe_id.h"
#include "libs/status/error.h"
#include "proto/capstan/event/v1/job_event.pb.h"

namespace capstan::telemetry {
namespace {

v1::AppendRecordsRequest Good() {
  v1::AppendRecordsRequest request;
  request.set_stream("projects/p/jobs/j/streams/log");
  v1::Record* record = request.add_records();
  record->set_kind("log");
  record->set_producer("agent");
  record->set_producer_sequence(1);
  return request;
}

TEST(StreamRulesTest, KnowsStreamNames) {
  for (const char* good :
       {"streams/audit", "projects/p/jobs/j/streams/log", "projects/p/jobs/j/streams/events",
        "projects/p/jobs/j/streams/metrics", "projects/p/jobs/j/streams/usage"}) {
    EXPECT_TRUE(IsStreamName(good)) << good;
  }
  for (const char* bad : {"", "streams/other", "projects/p/jobs/j/streams/x", "projects/p",
                          "projects/../jobs/j/streams/log", "/projects/p/jobs/j/streams/log",
                          "projects/p/jobs/j/streams/log/", "projects/p/jobs//streams/log"}) {
    EXPECT_FALSE(IsStreamName(bad)) << bad;
  }
}

TEST(StreamRulesTest, NamesEveryWrongField) {
  EXPECT_TRUE(CheckAppend(Good()).ok());
  v1::AppendRecordsRequest bad;
  bad.set_stream("x");
  bad.add_records()->set_key(std::string(600, 'k'));
  std::vector<std::string> fields;
  for (const auto& violation : status::GetFieldViolations(CheckAppend(bad))) {
    fields.push_back(violation.field);
  }
  EXPECT_EQ(fields, (std::vector<std::string>{"stream", "records[0].kind", "records[0].producer",
                                              "records[0].key", "records[0].producer_sequence"}));
  v1::AppendRecordsRequest large = Good();
  large.mutable_records(0)->set_payload(std::string(kMaxAppendBytes, 'x'));
  EXPECT_EQ(CheckAppend(large).code(), absl::StatusCode::kInvalidArgument);
  v1::ReadRecordsRequest both;
  both.set_stream("streams/audit");
  both.set_tail(1);
  EXPECT_TRUE(CheckRead(both).ok());
  both.set_start_offset(1);
  EXPECT_FALSE(CheckRead(both).ok());
}

TEST(StreamRulesTest, ACallToManyStreamsIsBoundedAndNamesEachOnce) {
  v1::AppendToStreamsRequest request;
  EXPECT_TRUE(CheckAppendToStreams(request).ok());
  for (int i = 0; i < kMaxAppends; ++i) {
    v1::AppendRecordsRequest* append = request.add_appends();
    *append = Good();
    append->set_stream(absl::StrCat("projects/p/jobs/j", i, "/streams/events"));
  }
  // What is wrong with one append is no matter of the call's.
  request.mutable_appends(0)->mutable_records(0)->clear_kind();
  EXPECT_TRUE(CheckAppendToStreams(request).ok());

  v1::AppendToStreamsRequest twice = request;
  twice.mutable_appends(7)->set_stream(twice.appends(3).stream());
  const auto violations = status::GetFieldViolations(CheckAppendToStreams(twice));
  ASSERT_EQ(violations.size(), 1u);
  EXPECT_EQ(violations[0].field, "appends[7].stream");

  v1::AppendToStreamsRequest many = request;
  *many.add_appends() = Good();
  EXPECT_EQ(CheckAppendToStreams(many).code(), absl::StatusCode::kInvalidArgument);
  // Each within its bounds, together too much.
  for (v1::AppendRecordsRequest& append : *request.mutable_appends()) {
    append.mutable_records(0)->set_payload(std::string(kMaxAppendBytes / kMaxAppends, 'x'));
    EXPECT_TRUE(CheckAppend(append).ok() || &append == &request.appends(0));
  }
  EXPECT_EQ(CheckAppendToStreams(request).code(), absl::StatusCode::kInvalidArgument);
}

TEST(StreamRulesTest, FiltersByAttributesButNeverAGap) {
  v1::ReadRecordsRequest request;
  v1::Record record;
  (*record.mutable_attributes())["rank"] = "1";
  EXPECT_TRUE(Matches(record, request));
  (*request.mutable_attributes())["rank"] = "1";
  EXPECT_TRUE(Matches(record, request));
  (*request.mutable_attributes())["group"] = "g";
  EXPECT_FALSE(Matches(record, request));
  const v1::Record gap = GapRecordBefore(11, 10, 500);
  EXPECT_TRUE(Matches(gap, request));
  EXPECT_EQ(gap.offset(), 10);
  event::v1::GapRecord parsed;
  ASSERT_TRUE(parsed.ParseFromString(gap.payload()));
  EXPECT_EQ(parsed.dropped_records(), 10);
  EXPECT_EQ(parsed.reason(), "RETENTION");
}

TEST(StreamRulesTest, NodesAppendToLogsAndMetricsOnly) {
  const auto node = auth::SpiffeId::Node("d", "local", "a");
  const auto scheduler = auth::SpiffeId::Service("d", "scheduler");
  for (const char* stream : {"projects/p/jobs/j/streams/log", "projects/p/jobs/j/streams/metrics",
                             "projects/p/jobs/j/streams/usage"}) {
    EXPECT_TRUE(MayAppend(node, stream));
    EXPECT_TRUE(MayAppend(scheduler, stream));
  }
  for (const char* stream : {"projects/p/jobs/j/streams/events", "streams/audit"}) {
    EXPECT_FALSE(MayAppend(node, stream));
    EXPECT_TRUE(MayAppend(scheduler, stream));
  }
  EXPECT_FALSE(MayAppend(auth::SpiffeId::Person("d", "1"), "projects/p/jobs/j/streams/log"));
  EXPECT_FALSE(MayAppend(auth::SpiffeId::Executor("d", "local"), "projects/p/jobs/j/streams/log"));
}

TEST(StreamRulesTest, AStreamIsOfAJobOrOfNone) {
  EXPECT_EQ(JobOf("projects/p/jobs/j/streams/log"), "projects/p/jobs/j");
  EXPECT_EQ(JobOf("streams/audit"), "");
}

}  // namespace
}  // namespace capstan::telemetry
