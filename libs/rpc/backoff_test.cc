#include "libs/rpc/backoff.h"

#include <algorithm>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/random/random.h"
#include "libs/strand/simulated_strand.h"
#include "libs/time/simulated_clock.h"

namespace capstan::rpc {
namespace {

TEST(BackoffTest, DoublesUpToItsBoundWithinTheUpperHalf) {
  Random random(1);
  Backoff backoff(&random, {.initial = absl::Milliseconds(100), .max = absl::Seconds(1)});
  absl::Duration ceiling = absl::Milliseconds(100);
  for (int i = 0; i < 20; ++i) {
    const absl::Duration delay = backoff.Next();
    EXPECT_GE(delay, ceiling / 2);
    EXPECT_LE(delay, ceiling);
    ceiling = std::min(ceiling * 2, absl::Seconds(1));
  }
  backoff.Reset();
  EXPECT_LE(backoff.Next(), absl::Milliseconds(100));
}

TEST(BackoffTest, ReconnectTriesAgainOncePerLoss) {
  SimulatedClock clock;
  SimulatedStrand strand(&clock);
  Random random(1);
  int tries = 0;
  Reconnect reconnect(&strand, &random, [&] { ++tries; });
  reconnect.Start();
  EXPECT_EQ(tries, 1);
  reconnect.Lost();
  reconnect.Lost();
  EXPECT_EQ(strand.armed(), 1u);
  strand.Advance(absl::Seconds(1));
  EXPECT_EQ(tries, 2);
  reconnect.Lost();
  reconnect.Stop();
  strand.Advance(absl::Minutes(1));
  EXPECT_EQ(tries, 2);
  EXPECT_EQ(strand.armed(), 0u);
}

}  // namespace
}  // namespace capstan::rpc
