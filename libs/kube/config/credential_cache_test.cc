// If these fail, a plugin runs for each request, or a credential that has ended is shown.
#include "libs/kube/config/credential_cache.h"

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/kube/transport/credential_source.h"
#include "libs/status/error.h"
#include "libs/time/simulated_clock.h"

namespace capstan::kube {
namespace {

using Answer = CredentialCache::Answer;

class CredentialCacheTest : public testing::Test {
 protected:
  CredentialCacheTest() : cache_(MakeOptions()) {}

  static CredentialCache::Options MakeOptions() {
    CredentialCache::Options options;
    options.margin = absl::Minutes(1);
    return options;
  }
  Answer Ask() { return cache_.Ask(clock_.Read()); }
  void Fetch(const std::string& token, absl::Duration life = absl::InfiniteDuration()) {
    FetchedCredential fetched;
    fetched.credential.bearer_token = token;
    fetched.expires = clock_.Read().wall + life;
    cache_.Fetched(fetched, clock_.Read());
  }
  void Fail() { cache_.Fetched(absl::UnavailableError("no"), clock_.Read()); }
  void Reject(const std::string& token) { cache_.Rejected({token, "", ""}, clock_.Read()); }

  SimulatedClock clock_;
  CredentialCache cache_;
};

TEST_F(CredentialCacheTest, GivesUntilTheMarginBeforeTheEnd) {
  EXPECT_EQ(Ask(), Answer::kFetch);
  Fetch("a", absl::Minutes(10));
  EXPECT_EQ(Ask(), Answer::kGive);
  clock_.Advance(absl::Minutes(9) - absl::Seconds(1));
  EXPECT_EQ(Ask(), Answer::kGive);
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(Ask(), Answer::kFetch);
  // A short life has a short margin.
  Fetch("b", absl::Seconds(10));
  clock_.Advance(absl::Seconds(7));
  EXPECT_EQ(Ask(), Answer::kGive);
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(Ask(), Answer::kFetch);
}

TEST_F(CredentialCacheTest, WaitsLongerAfterEachFailure) {
  for (const int seconds : {1, 2, 4, 8, 16, 32, 60, 60}) {
    Fail();
    EXPECT_EQ(Ask(), Answer::kRefuse);
    EXPECT_EQ(status::GetRetryDelay(cache_.Error(clock_.Read())), absl::Seconds(seconds));
    clock_.Advance(absl::Seconds(seconds));
    EXPECT_EQ(Ask(), Answer::kFetch);
  }
  Fetch("a");
  EXPECT_EQ(Ask(), Answer::kGive);
}

TEST_F(CredentialCacheTest, AFailureKeepsWhatHasNotEnded) {
  Fetch("a", absl::Minutes(10));
  clock_.Advance(absl::Minutes(10) - absl::Milliseconds(500));
  Fail();
  EXPECT_EQ(Ask(), Answer::kGive);
  EXPECT_EQ(cache_.credential().bearer_token, "a");
  clock_.Advance(absl::Milliseconds(500));
  EXPECT_EQ(Ask(), Answer::kRefuse);
}

TEST_F(CredentialCacheTest, RejectionsInARowWait) {
  Fetch("a");
  Reject("other");
  EXPECT_EQ(Ask(), Answer::kGive);
  Reject("a");
  Reject("a");
  EXPECT_EQ(Ask(), Answer::kFetch);
  for (const int seconds : {1, 2, 4}) {
    Fetch("b");
    Reject("b");
    EXPECT_EQ(Ask(), Answer::kGive) << "it waits, and has nothing better";
    clock_.Advance(absl::Seconds(seconds));
    EXPECT_EQ(Ask(), Answer::kFetch);
  }
  Fetch("c");
  clock_.Advance(absl::Minutes(3));
  Reject("c");
  EXPECT_EQ(Ask(), Answer::kFetch);
}

}  // namespace
}  // namespace capstan::kube
