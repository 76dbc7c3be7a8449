#include "libs/auth/refused_handshakes.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/audit/audit_sink.h"
#include "libs/log/log.h"
#include "libs/log/testing_sink.h"
#include "libs/metrics/registry.h"
#include "libs/time/simulated_clock.h"

namespace capstan::auth {
namespace {

using Side = RefusedHandshakes::Side;

class RecordingSink final : public audit::AuditSink {
 public:
  absl::Status Record(const audit::AuditEntry& entry) override {
    entries.push_back(entry);
    return absl::OkStatus();
  }
  std::vector<audit::AuditEntry> entries;
};

class RefusedHandshakesTest : public ::testing::Test {
 protected:
  double Count(const std::string& side) {
    return registry_.AddCounter("handshakes_refused_total", "", {{"side", side}}).value();
  }

  SimulatedClock clock_;
  RecordingSink audit_;
  log::TestingSink lines_;
  log::Logger logger_{"test", &clock_, &lines_};
  metrics::Registry registry_{"test"};
  RefusedHandshakes refused_{&audit_, &clock_, &logger_, &registry_};
};

TEST_F(RefusedHandshakesTest, AStrangerCostsTwoRecordsAMinuteWhateverHeShows) {
  for (int i = 0; i < 10'000; ++i) {
    refused_.Record(Side::kServer, absl::UnauthenticatedError(absl::StrCat("no ", i)),
                    absl::StrCat("spiffe://x/svc/", i));
  }
  ASSERT_EQ(audit_.entries.size(), 1u);
  EXPECT_EQ(audit_.entries[0].principal, "anonymous");
  EXPECT_EQ(audit_.entries[0].act, "handshake");
  EXPECT_EQ(audit_.entries[0].resource, "spiffe://x/svc/0");
  EXPECT_EQ(audit_.entries[0].message, "no 0");
  EXPECT_EQ(audit_.entries[0].outcome_code, 16);
  clock_.Advance(absl::Seconds(61));
  refused_.Flush();
  ASSERT_EQ(audit_.entries.size(), 2u);
  EXPECT_EQ(audit_.entries[1].repeats, 9'999);
  EXPECT_EQ(lines_.records().size(), 2u);
  EXPECT_EQ(Count("server"), 10'000);
  EXPECT_EQ(Count("client"), 0);
}

TEST_F(RefusedHandshakesTest, ServersThatAreRefusedAreSeenToo) {
  refused_.Record(Side::kServer, absl::UnauthenticatedError("a"), "");
  refused_.Record(Side::kClient, absl::UnauthenticatedError("b"), "");
  ASSERT_EQ(audit_.entries.size(), 2u);
  EXPECT_EQ(audit_.entries[1].act, "handshake-as-client");
  EXPECT_EQ(Count("client"), 1);
}

TEST_F(RefusedHandshakesTest, WhatIsClaimedIsCutAndEscaped) {
  refused_.Record(Side::kServer, absl::UnauthenticatedError("a\nb"), std::string(5'000, '\n'));
  ASSERT_EQ(audit_.entries.size(), 1u);
  EXPECT_LE(audit_.entries[0].resource.size(), 512u);
  EXPECT_EQ(audit_.entries[0].message, "a\\nb");
}

TEST_F(RefusedHandshakesTest, CloseRecordsWhatIsLeftAndNothingAfter) {
  refused_.Record(Side::kServer, absl::UnauthenticatedError("a"), "");
  refused_.Record(Side::kServer, absl::UnauthenticatedError("a"), "");
  refused_.Close();
  EXPECT_EQ(audit_.entries.size(), 2u);
  refused_.Record(Side::kServer, absl::UnauthenticatedError("a"), "");
  refused_.Flush();
  refused_.Close();
  EXPECT_EQ(audit_.entries.size(), 2u);
  EXPECT_EQ(Count("server"), 2);
}

}  // namespace
}  // namespace capstan::auth
