#include "libs/auth/svid_renewer.h"

#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/auth/renewal_schedule.h"
#include "libs/random/random.h"
#include "libs/rpc/testing/test_authority.h"
#include "libs/rpc/x509_issue.h"
#include "libs/strand/simulated_strand.h"
#include "libs/time/simulated_clock.h"

namespace capstan::auth {
namespace {

const absl::Time kStart = absl::FromUnixSeconds(1'800'000'000);
constexpr char kId[] = "spiffe://test.capstan.dev/svc/scheduler";

// Stands for credentials: issues SVIDs of 24 h while it is up.
class SvidRenewerTest : public ::testing::Test {
 protected:
  SvidRenewerTest() {
    static int number = 0;
    identity_ = authority_.MakeIdentity(
        "/svc/scheduler", absl::StrCat(::testing::TempDir(), "/svid", getpid(), "-", ++number),
        absl::Hours(23));
  }

  std::unique_ptr<SvidRenewer> MakeRenewer() {
    return std::make_unique<SvidRenewer>(
        identity_, &strand_, &random_,
        [this](std::string request, SvidRenewer::Done done) {
          tries_.push_back(clock_.Read().wall);
          if (!up_) {
            strand_.Post([done = std::move(done)]() mutable {
              done(absl::UnavailableError("credentials is down"));
            });
            return;
          }
          strand_.Post([this, request, done = std::move(done)]() mutable { done(Issue(request)); });
        },
        [this](const absl::Status& status) { last_ = status; }, [this] { ++expired_; });
  }

  credentials::v1::Svid Issue(const std::string& request) {
    rpc::CertificateSpec spec;
    spec.uri = id_;
    spec.public_key = rpc::PublicKeyOfRequest(request).value();
    spec.not_before = clock_.Read().wall;
    spec.not_after = clock_.Read().wall + absl::Hours(24);
    credentials::v1::Svid svid;
    svid.add_certificate_chain(
        rpc::IssueCertificate(spec, authority_.root(), authority_.key()).value());
    svid.mutable_bundle()->add_roots(authority_.root());
    return svid;
  }

  absl::Duration Left() const { return identity_->Get()->not_after - clock_.Read().wall; }

  const rpc::TestAuthority authority_{"test.capstan.dev", kStart};
  SimulatedClock clock_{Now{kStart, BootTime()}};
  SimulatedStrand strand_{&clock_};
  Random random_{1};
  std::shared_ptr<rpc::Identity> identity_;
  bool up_ = true;
  std::string id_ = kId;
  std::vector<absl::Time> tries_;
  absl::Status last_;
  int expired_ = 0;
};

TEST_F(SvidRenewerTest, RenewsAtAThirdOfLifeUnderANewKey) {
  const std::string old_key = identity_->Get()->svid.key_pem;
  const auto renewer = MakeRenewer();
  renewer->Start();
  // 24 h from an hour before the start.
  strand_.Advance(absl::Hours(7) - absl::Minutes(1));
  EXPECT_TRUE(tries_.empty());
  strand_.Advance(absl::Minutes(2));
  EXPECT_EQ(tries_.size(), 1u);
  EXPECT_NE(identity_->Get()->svid.key_pem, old_key);
  EXPECT_GT(Left(), absl::Hours(23));
  strand_.Advance(absl::Hours(24));
  EXPECT_EQ(tries_.size(), 4u);
}

TEST_F(SvidRenewerTest, TwelveHoursWithoutCredentialsLoseNothing) {
  // Whenever the outage begins.
  for (int begin = 0; begin < 24; begin += 3) {
    auto renewer = MakeRenewer();
    renewer->Start();
    up_ = true;
    strand_.Advance(absl::Hours(begin));
    up_ = false;
    for (int hour = 0; hour < 12; ++hour) {
      strand_.Advance(absl::Hours(1));
      ASSERT_GT(Left(), absl::ZeroDuration()) << begin << " " << hour;
    }
    up_ = true;
    strand_.Advance(absl::Minutes(6));
    ASSERT_GE(Left(), absl::Hours(15)) << begin;
  }
}

TEST_F(SvidRenewerTest, RetriesAreBoundedAndSpread) {
  up_ = false;
  const auto renewer = MakeRenewer();
  renewer->Start();
  strand_.Advance(absl::Hours(12));
  // 5 h of at most 5 min each, at least half of that.
  EXPECT_GE(tries_.size(), 60u);
  EXPECT_LE(tries_.size(), 140u);
  EXPECT_EQ(last_.code(), absl::StatusCode::kUnavailable);
}

TEST_F(SvidRenewerTest, AnExpiredSvidIsSaidOnceAndStillRenewed) {
  up_ = false;
  const auto renewer = MakeRenewer();
  renewer->Start();
  strand_.Advance(absl::Hours(23) - absl::Seconds(10));
  EXPECT_EQ(expired_, 0);
  strand_.Advance(absl::Seconds(20));
  EXPECT_EQ(expired_, 1);
  strand_.Advance(absl::Hours(7));
  EXPECT_EQ(expired_, 1);
  EXPECT_LT(Left(), absl::ZeroDuration());
  up_ = true;
  strand_.Advance(absl::Seconds(2));
  EXPECT_GT(Left(), absl::Hours(23));
}

TEST_F(SvidRenewerTest, AnAnswerForAnotherIdIsNotTaken) {
  id_ = "spiffe://test.capstan.dev/svc/telemetry";
  const auto renewer = MakeRenewer();
  renewer->Start();
  strand_.Advance(absl::Hours(8));
  EXPECT_FALSE(last_.ok());
  EXPECT_EQ(identity_->Get()->id.ToString(), kId);
  id_ = kId;
  strand_.Advance(absl::Minutes(10));
  EXPECT_GT(Left(), absl::Hours(23));
}

TEST_F(SvidRenewerTest, AWallClockStepIsNoticedWithinTenMinutes) {
  const auto renewer = MakeRenewer();
  renewer->Start();
  strand_.Advance(absl::Minutes(1));
  clock_.StepWall(absl::Hours(10));
  strand_.Advance(absl::Minutes(10));
  EXPECT_EQ(tries_.size(), 1u);
}

TEST_F(SvidRenewerTest, NothingHappensAfterItsEnd) {
  auto renewer = MakeRenewer();
  renewer->Start();
  strand_.Advance(absl::Hours(7) - absl::Seconds(1));
  const std::string key = identity_->Get()->svid.key_pem;
  renewer = nullptr;
  strand_.Advance(absl::Hours(1));
  EXPECT_TRUE(tries_.empty());
  EXPECT_EQ(identity_->Get()->svid.key_pem, key);
}

TEST(RenewalRetryDelayTest, NeverWaitsLongerThanATwentiethOfWhatIsLeft) {
  for (int failures = 0; failures < 40; ++failures) {
    for (const absl::Duration left :
         {absl::Hours(16), absl::Minutes(10), absl::Seconds(30), -absl::Hours(1)}) {
      for (const double jitter : {0.0, 0.5, 0.999}) {
        const absl::Duration delay = RenewalRetryDelay(failures, left, jitter);
        EXPECT_GE(delay, absl::Milliseconds(500));
        EXPECT_LE(delay, std::max(absl::Seconds(1), std::min(absl::Minutes(5), left / 20)));
      }
    }
  }
}

}  // namespace
}  // namespace capstan::auth
