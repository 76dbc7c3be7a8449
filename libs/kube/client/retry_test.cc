#include "libs/kube/client/retry.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/kube/client/rate_limiter.h"
#include "libs/kube/client/server_error.h"
#include "libs/kube/transport/transport_error.h"
#include "libs/status/error.h"

namespace capstan::kube {
namespace {

const BootTime kStart = BootTime::FromNanoseconds(1'000'000'000);
const BootTime kNever = BootTime::InfiniteFuture();

absl::Status Http(int status, const char* retry_after = nullptr) {
  std::vector<HttpHeader> headers;
  if (retry_after != nullptr) headers.push_back({"Retry-After", retry_after});
  return ServerError(status, headers, "");
}

absl::Status Broke(const char* reason) {
  return status::Error(absl::StatusCode::kUnavailable, reason, "x");
}

absl::Status Budget() {
  return ServerError(429, {{"Retry-After", "1"}},
                     R"({"status":"Failure","reason":"TooManyRequests","details":{"name":"a",)"
                     R"("causes":[{"reason":"DisruptionBudget"}]}})");
}

TEST(RetryPolicyTest, RepeatsByWhatMayHaveHappened) {
  struct Case {
    absl::Status failure;
    bool harmful;
    bool harmless;
  };
  const Case cases[] = {
      {Broke(kNotSent), true, true},
      {Http(429, "1"), true, true},
      {Http(429), false, true},
      {Broke(kBroken), false, true},
      {Broke(kTimedOut), false, true},
      {Http(500), false, true},
      {Http(502), false, true},
      {Http(503, "1"), false, true},
      {Http(504), false, true},
      {Http(501), false, false},
      {Budget(), false, false},
      {Http(400), false, false},
      {Http(401), false, false},
      {Http(403), false, false},
      {Http(404), false, false},
      {Http(409), false, false},
      {Http(410), false, false},
      {Http(422), false, false},
      {Broke(kTlsFailed), false, false},
      {Broke(kNoCredential), false, false},
      {Broke(kStopped), false, false},
      {Broke(kBadRequest), false, false},
      {absl::InternalError("x"), false, false},
  };
  Random random(1);
  for (const Case& c : cases) {
    RetryPolicy policy({}, &random);
    EXPECT_EQ(policy.OnFailure(c.failure, Repeat::kHarmful, 1, kStart, kNever).has_value(),
              c.harmful)
        << c.failure;
    EXPECT_EQ(policy.OnFailure(c.failure, Repeat::kHarmless, 1, kStart, kNever).has_value(),
              c.harmless)
        << c.failure;
  }
}

TEST(RetryPolicyTest, WaitsWithinItsBounds) {
  Random random(2);
  RetryOptions options;
  options.max_attempts = 100;
  options.max_retries_in_a_row = 1000000;
  RetryPolicy policy(options, &random);
  for (int attempts = 1; attempts < 20; ++attempts) {
    absl::Duration most = options.max_backoff;
    if (attempts < 8) most = options.initial_backoff * (1 << (attempts - 1));
    absl::Duration longest = absl::ZeroDuration();
    for (int i = 0; i < 100; ++i) {
      const auto when = policy.OnFailure(Http(503), Repeat::kHarmless, attempts, kStart, kNever);
      ASSERT_TRUE(when.has_value());
      EXPECT_GE(*when, kStart);
      EXPECT_LE(*when - kStart, most);
      longest = std::max(longest, *when - kStart);
    }
    // Jitter over the whole span.
    EXPECT_GT(longest, most * 0.8);
  }
}

TEST(RetryPolicyTest, ComesNotBeforeTheServerSaysNorAllAtOnce) {
  Random random(3);
  RetryOptions options;
  options.max_retries_in_a_row = 1000000;
  RetryPolicy policy(options, &random);
  bool spread = false;
  for (int i = 0; i < 200; ++i) {
    const auto when = policy.OnFailure(Http(429, "10"), Repeat::kHarmful, 1, kStart, kNever);
    ASSERT_TRUE(when.has_value());
    EXPECT_GE(*when - kStart, absl::Seconds(10));
    EXPECT_LE(*when - kStart, absl::Seconds(15));
    spread = spread || *when - kStart > absl::Seconds(13);
  }
  EXPECT_TRUE(spread);
}

TEST(RetryPolicyTest, EndsAtTheDeadlineAndAfterTheLastAttempt) {
  Random random(4);
  RetryPolicy policy({}, &random);
  EXPECT_FALSE(
      policy.OnFailure(Http(429, "10"), Repeat::kHarmless, 1, kStart, kStart + absl::Seconds(10))
          .has_value());
  EXPECT_TRUE(policy.OnFailure(Http(503), Repeat::kHarmless, 4, kStart, kNever).has_value());
  EXPECT_FALSE(policy.OnFailure(Http(503), Repeat::kHarmless, 5, kStart, kNever).has_value());
}

TEST(RetryPolicyTest, ADeadServerGetsLittleMoreThanItsLoad) {
  Random random(5);
  const RetryOptions options;
  RetryPolicy policy(options, &random);
  int retries = 0;
  for (int call = 0; call < 1000; ++call) {
    for (int attempts = 1; attempts < options.max_attempts; ++attempts) {
      if (!policy.OnFailure(Http(503), Repeat::kHarmless, attempts, kStart, kNever)) break;
      ++retries;
    }
  }
  EXPECT_EQ(retries, 10);
  // Ten successes pay for one.
  for (int i = 0; i < 10; ++i) policy.OnSuccess();
  EXPECT_TRUE(policy.OnFailure(Http(503), Repeat::kHarmless, 1, kStart, kNever).has_value());
  EXPECT_FALSE(policy.OnFailure(Http(503), Repeat::kHarmless, 1, kStart, kNever).has_value());
  // And no more are saved up than the budget has.
  for (int i = 0; i < 10000; ++i) policy.OnSuccess();
  retries = 0;
  while (policy.OnFailure(Http(503), Repeat::kHarmless, 1, kStart, kNever)) ++retries;
  EXPECT_EQ(retries, 10);
}

TEST(RateLimiterTest, KeepsItsRateOverEverySpan) {
  Random random(6);
  for (int round = 0; round < 20; ++round) {
    const RateLimit limit{1.0 + static_cast<double>(random.Below(20)),
                          1.0 + static_cast<double>(random.Below(10))};
    RateLimiter limiter(limit);
    BootTime now = kStart;
    std::vector<BootTime> used;
    for (int i = 0; i < 200; ++i) {
      now = now + absl::Milliseconds(static_cast<int64_t>(random.Below(200)));
      const BootTime when = limiter.Take(now);
      EXPECT_GE(when, now);
      EXPECT_TRUE(used.empty() || when >= used.back());
      used.push_back(when);
    }
    for (size_t i = 0; i < used.size(); ++i) {
      for (size_t j = i; j < used.size(); ++j) {
        const double seconds = absl::ToDoubleSeconds(used[j] - used[i]);
        EXPECT_LE(static_cast<double>(j - i + 1), limit.burst + seconds * limit.per_second + 1e-3);
      }
    }
  }
}

TEST(RateLimiterTest, DelaysNobodyWithinTheBurst) {
  RateLimiter limiter({1, 3});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(limiter.Take(kStart), kStart);
  EXPECT_EQ(limiter.Take(kStart), kStart + absl::Seconds(1));
  EXPECT_EQ(limiter.Take(kStart + absl::Seconds(10)), kStart + absl::Seconds(10));
}

}  // namespace
}  // namespace capstan::kube
