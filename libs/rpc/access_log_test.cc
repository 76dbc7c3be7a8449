#include "libs/rpc/access_log.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/log/log.h"
#include "libs/log/testing_sink.h"
#include "libs/metrics/registry.h"
#include "libs/time/simulated_clock.h"

namespace capstan::rpc {
namespace {

using ::testing::ElementsAre;

class AccessLogTest : public ::testing::Test {
 protected:
  std::vector<std::string> Lines() const {
    std::vector<std::string> lines;
    for (const log::Record& record : sink_.records()) {
      std::string line = record.message;
      for (const log::Field& field : record.fields) {
        absl::StrAppend(&line, " ", field.key(), "=", field.text());
      }
      lines.push_back(line);
    }
    return lines;
  }

  SimulatedClock clock_;
  log::TestingSink sink_;
  log::Logger logger_{"x", &clock_, &sink_};
  metrics::Registry registry_{"process"};
};

TEST_F(AccessLogTest, ALineSaysWhoCalledWhatAndHowItEnded) {
  AccessLog log({}, &clock_, logger_, &registry_);
  AccessLog::Call call;
  call.method = "/a.B/C";
  call.principal = "spiffe://t/person/1";
  call.code = grpc::StatusCode::NOT_FOUND;
  call.begin = log.Now();
  call.trace_id = "4bf92f3577b34da6a3ce929d0e0e4736";
  clock_.Advance(absl::Milliseconds(250));
  log.Record(call);
  EXPECT_THAT(Lines(),
              ElementsAre("call method=/a.B/C principal=spiffe://t/person/1 code=NOT_FOUND "
                          "duration=250ms trace_id=4bf92f3577b34da6a3ce929d0e0e4736"));
  log.Close();
  log.Record(call);
  EXPECT_EQ(Lines().size(), 1u);
}

TEST_F(AccessLogTest, FailedCallsOnlyIfThatIsWanted) {
  AccessLog log({.failed_only = true}, &clock_, logger_, &registry_);
  AccessLog::Call call;
  call.method = "/a.B/C";
  call.begin = log.Now();
  log.Record(call);
  call.code = grpc::StatusCode::PERMISSION_DENIED;
  log.Record(call);
  EXPECT_THAT(Lines(), ElementsAre("call method=/a.B/C principal=anonymous "
                                   "code=PERMISSION_DENIED duration=0"));
}

TEST_F(AccessLogTest, CallsAboveTheBoundAreCounted) {
  AccessLog log({.max_lines_per_second = 2}, &clock_, logger_, &registry_);
  clock_.Advance(absl::Seconds(5));
  AccessLog::Call call;
  call.method = "/a.B/C";
  call.begin = log.Now();
  for (int i = 0; i < 5; ++i) log.Record(call);
  EXPECT_EQ(sink_.records().size(), 2u);
  EXPECT_EQ(registry_
                .AddCounter("access_log_dropped_calls_total",
                            "Calls too many to be written to the access log.")
                .value(),
            3);
  clock_.Advance(absl::Seconds(1));
  log.Record(call);
  EXPECT_THAT(Lines(), ElementsAre("call method=/a.B/C principal=anonymous code=OK duration=0",
                                   "call method=/a.B/C principal=anonymous code=OK duration=0",
                                   "calls not logged calls=3",
                                   "call method=/a.B/C principal=anonymous code=OK duration=1s"));
}

}  // namespace
}  // namespace capstan::rpc
