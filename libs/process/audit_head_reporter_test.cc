#include "libs/process/audit_head_reporter.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/audit/audit_file.h"
#include "libs/log/log.h"
#include "libs/log/testing_sink.h"
#include "libs/metrics/registry.h"
#include "libs/strand/simulated_strand.h"
#include "libs/time/simulated_clock.h"

namespace capstan::process {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class AuditHeadReporterTest : public ::testing::Test {
 protected:
  AuditHeadReporterTest() {
    reporter_ = std::make_unique<AuditHeadReporter>(
        AuditHeadReporter::Options(),
        AuditHeadReporter::Deps{
            .strand = &strand_,
            .log = &log_,
            .metrics = &metrics_,
            .head = [this] { return head_; },
            .report =
                [this](const audit::ChainHead& head, absl::AnyInvocable<void(absl::Status)> done) {
                  reported_.push_back(head.sequence);
                  done(answer_);
                }});
    strand_.Post([this] { reporter_->Start(); });
  }

  SimulatedClock clock_;
  SimulatedStrand strand_{&clock_};
  log::TestingSink sink_;
  log::Logger log_{"test", &clock_, &sink_, log::Level::kDebug};
  metrics::Registry metrics_{"test"};
  audit::ChainHead head_;
  absl::Status answer_;
  std::vector<int64_t> reported_;
  std::unique_ptr<AuditHeadReporter> reporter_;
};

TEST_F(AuditHeadReporterTest, ReportsAfterAMinuteOrTwoHundredAndFiftySixRecords) {
  strand_.Advance(absl::Minutes(5));
  EXPECT_THAT(reported_, ElementsAre());
  head_.sequence = 1;
  strand_.Advance(absl::Seconds(2));
  EXPECT_THAT(reported_, ElementsAre(1));
  head_.sequence = 2;
  strand_.Advance(absl::Seconds(50));
  EXPECT_THAT(metrics_.RenderText(), HasSubstr("capstan_test_audit_unsigned_records 1"));
  EXPECT_THAT(reported_, ElementsAre(1));
  strand_.Advance(absl::Seconds(12));
  EXPECT_THAT(reported_, ElementsAre(1, 2));
  strand_.Advance(absl::Seconds(15));
  head_.sequence = 2 + 255;
  strand_.Advance(absl::Seconds(2));
  EXPECT_THAT(reported_, ElementsAre(1, 2));
  head_.sequence = 2 + 256;
  strand_.Advance(absl::Seconds(2));
  EXPECT_THAT(reported_, ElementsAre(1, 2, 258));
  EXPECT_THAT(metrics_.RenderText(), HasSubstr("capstan_test_audit_unsigned_records 0"));
}

TEST_F(AuditHeadReporterTest, AnOutageIsRetriedAndACutChainShows) {
  head_.sequence = 5;
  answer_ = absl::UnavailableError("down");
  strand_.Advance(absl::Minutes(3));
  EXPECT_GE(reported_.size(), 3u);
  EXPECT_LE(reported_.size(), 5u);
  EXPECT_THAT(metrics_.RenderText(), HasSubstr("capstan_test_audit_chain_refused 0"));
  answer_ = absl::FailedPreconditionError("cut");
  strand_.Advance(absl::Minutes(1));
  EXPECT_THAT(metrics_.RenderText(), HasSubstr("capstan_test_audit_chain_refused 1"));
  answer_ = absl::OkStatus();
  strand_.Advance(absl::Minutes(1));
  EXPECT_THAT(metrics_.RenderText(), HasSubstr("capstan_test_audit_chain_refused 0"));
}

TEST_F(AuditHeadReporterTest, TheLastRecordsAreReportedAtTheEnd) {
  head_.sequence = 5;
  strand_.Advance(absl::Seconds(2));
  head_.sequence = 7;
  bool closed = false;
  strand_.Post([&] { reporter_->Close([&] { closed = true; }); });
  strand_.RunReady();
  EXPECT_TRUE(closed);
  EXPECT_THAT(reported_, ElementsAre(5, 7));
  closed = false;
  strand_.Post([&] { reporter_->Close([&] { closed = true; }); });
  strand_.RunReady();
  EXPECT_TRUE(closed);
  EXPECT_THAT(reported_, ElementsAre(5, 7));
}

}  // namespace
}  // namespace capstan::process
