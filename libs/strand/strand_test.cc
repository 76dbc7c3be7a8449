#include "libs/strand/strand.h"

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/strand/simulated_strand.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/simulated_clock.h"
#include "libs/time/system_clock.h"

namespace capstan {
namespace {

TEST(SimulatedStrandTest, RunsTimersInOrderOfTimeThenArming) {
  SimulatedClock clock;
  SimulatedStrand strand(&clock);
  std::vector<int> order;
  strand.RunAfter(absl::Seconds(2), [&] { order.push_back(3); });
  strand.RunAfter(absl::Seconds(1), [&] { order.push_back(1); });
  strand.RunAfter(absl::Seconds(1), [&] { order.push_back(2); });
  strand.Post([&] { order.push_back(0); });
  strand.Advance(absl::Seconds(2));
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(strand.armed(), 0u);
}

TEST(SimulatedStrandTest, TimerSeesItsOwnTime) {
  SimulatedClock clock;
  SimulatedStrand strand(&clock);
  const BootTime start = clock.Read().boot;
  absl::Duration seen;
  strand.RunAfter(absl::Seconds(5), [&] { seen = clock.Read().boot - start; });
  strand.Advance(absl::Hours(1));
  EXPECT_EQ(seen, absl::Seconds(5));
  EXPECT_EQ(clock.Read().boot - start, absl::Hours(1));
}

TEST(SimulatedStrandTest, CancelledTimerDoesNotRun) {
  SimulatedClock clock;
  SimulatedStrand strand(&clock);
  bool ran = false;
  const Strand::TimerId timer = strand.RunAfter(absl::Seconds(1), [&] { ran = true; });
  EXPECT_TRUE(strand.Cancel(timer));
  EXPECT_FALSE(strand.Cancel(timer));
  strand.Advance(absl::Seconds(2));
  EXPECT_FALSE(ran);
}

TEST(SimulatedStrandTest, ADueTimerCanBeCancelled) {
  SimulatedClock clock;
  SimulatedStrand strand(&clock);
  bool ran = false;
  bool cancelled = false;
  Strand::TimerId second = 0;
  strand.RunAfter(absl::Seconds(1), [&] { cancelled = strand.Cancel(second); });
  second = strand.RunAfter(absl::Seconds(1), [&] { ran = true; });
  strand.Advance(absl::Seconds(2));
  EXPECT_TRUE(cancelled);
  EXPECT_FALSE(ran);
  EXPECT_FALSE(strand.Cancel(second));
}

TEST(ThreadStrandTest, RunsInOrderOfPosting) {
  SystemClock clock;
  ThreadStrand strand("test", &clock);
  std::vector<int> order;
  absl::Notification done;
  for (int i = 0; i < 1000; ++i) strand.Post([&order, i] { order.push_back(i); });
  strand.Post([&done] { done.Notify(); });
  done.WaitForNotification();
  ASSERT_EQ(order.size(), 1000u);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(order[i], i);
}

TEST(ThreadStrandTest, RunsTimersAndCancels) {
  SystemClock clock;
  ThreadStrand strand("test", &clock);
  absl::Notification done;
  bool cancelled = false;
  bool cancelled_ran = false;
  // On the strand, so that the timer cannot be due before it is cancelled.
  strand.Post([&] {
    cancelled =
        strand.Cancel(strand.RunAfter(absl::Milliseconds(2), [&] { cancelled_ran = true; }));
    strand.RunAfter(absl::Milliseconds(5), [&] { done.Notify(); });
  });
  done.WaitForNotification();
  strand.Stop();
  EXPECT_TRUE(cancelled);
  EXPECT_FALSE(cancelled_ran);
}

TEST(ThreadStrandTest, ADueTimerCanBeCancelled) {
  SystemClock clock;
  ThreadStrand strand("test", &clock);
  absl::Notification done;
  bool ran = false;
  bool cancelled = false;
  strand.Post([&] {
    // Both are due when the strand looks at its timers next.
    const BootTime now = clock.Read().boot;
    auto second = std::make_shared<Strand::TimerId>();
    strand.RunAt(now, [&, second] {
      cancelled = strand.Cancel(*second);
      strand.Post([&] { done.Notify(); });
    });
    *second = strand.RunAt(now, [&] { ran = true; });
  });
  done.WaitForNotification();
  strand.Stop();
  EXPECT_TRUE(cancelled);
  EXPECT_FALSE(ran);
}

TEST(ThreadStrandTest, RemotesOutliveTheStrand) {
  SystemClock clock;
  auto strand = std::make_unique<ThreadStrand>("test", &clock);
  const Strand::Remote remote = strand->remote();
  absl::Notification done;
  remote.Post([&done] { done.Notify(); });
  done.WaitForNotification();
  std::atomic<bool> stop = false;
  std::atomic<int> posted = 0;
  std::thread poster([&] {
    auto token = std::make_shared<int>(1);
    while (!stop) {
      remote.Post([token] {});
      ++posted;
    }
    EXPECT_EQ(token.use_count(), 1);
  });
  while (posted < 100) std::this_thread::yield();
  strand = nullptr;
  const int before = posted;
  while (posted < before + 100) std::this_thread::yield();
  stop = true;
  poster.join();
}

TEST(ThreadStrandTest, StopDestroysWhatIsQueued) {
  SystemClock clock;
  auto strand = std::make_unique<ThreadStrand>("test", &clock);
  auto token = std::make_shared<int>(1);
  strand->RunAfter(absl::Hours(1), [token] {});
  EXPECT_EQ(token.use_count(), 2);
  strand->Stop();
  EXPECT_EQ(token.use_count(), 1);
  strand->Post([token] {});
  EXPECT_EQ(token.use_count(), 1);
}

}  // namespace
}  // namespace capstan
