#include "libs/kube/work_queue/work_queue.h"

#include <cstdint>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "gtest/gtest.h"
#include "libs/kube/work_queue/work_queue_core.h"
#include "libs/kube/work_queue/work_queue_metrics.h"
#include "libs/metrics/registry.h"
#include "libs/random/random.h"
#include "libs/time/simulated_clock.h"
#include "libs/time/system_clock.h"

namespace capstan::kube {
namespace {

using Queue = WorkQueue<std::string>;

constexpr absl::Duration kDeadline = absl::Seconds(60);

TEST(WorkQueueTest, GetWaitsForTheClockThatItIsGiven) {
  SimulatedClock clock;
  Queue queue({}, &clock);
  queue.AddAfter("a", absl::Hours(1));
  absl::Notification got;
  std::thread worker([&] {
    EXPECT_EQ(queue.Get(), "a");
    got.Notify();
  });
  clock.Advance(absl::Minutes(59));
  queue.Wake();
  EXPECT_EQ(queue.stats().delayed, 1u);
  EXPECT_FALSE(got.HasBeenNotified());
  clock.Advance(absl::Minutes(1));
  queue.Wake();
  EXPECT_TRUE(got.WaitForNotificationWithTimeout(kDeadline));
  worker.join();
  clock.Advance(absl::Seconds(9));
  EXPECT_EQ(queue.stats().longest_running, absl::Seconds(9));
  ASSERT_EQ(queue.running().size(), 1u);
  EXPECT_EQ(queue.running()[0].first, "a");
  queue.Done("a");
  EXPECT_EQ(queue.stats().longest_running, absl::ZeroDuration());
}

TEST(WorkQueueTest, ShutDownDrainsOrDropsAndWaitsForWhatIsWorkedOn) {
  for (const bool drain : {true, false}) {
    SimulatedClock clock;
    Queue queue({}, &clock);
    queue.Add("a");
    queue.Add("b");
    ASSERT_EQ(queue.Get(), "a");
    queue.Add("a");
    queue.AddAfter("later", absl::Seconds(1));
    queue.ShutDown(drain);
    queue.Add("c");
    std::vector<std::string> rest;
    absl::Notification ended;
    std::thread worker([&] {
      while (const absl::optional<std::string> key = queue.Get()) {
        rest.push_back(*key);
        queue.Done(*key);
      }
      ended.Notify();
    });
    // The worker may not leave while "a" can still come back.
    EXPECT_FALSE(ended.HasBeenNotified());
    queue.Done("a");
    EXPECT_TRUE(ended.WaitForNotificationWithTimeout(kDeadline));
    worker.join();
    EXPECT_EQ(rest, drain ? (std::vector<std::string>{"b", "a"}) : std::vector<std::string>{});
  }
}

TEST(WorkQueueTest, CountsAndTimes) {
  SimulatedClock clock;
  metrics::Registry registry("test");
  WorkQueueMetrics metrics(&registry, "toys");
  Queue queue({}, &clock, &metrics);
  queue.Add("a");
  clock.Advance(absl::Seconds(2));
  ASSERT_EQ(queue.Get(), "a");
  clock.Advance(absl::Seconds(3));
  queue.AddRateLimited("a");
  EXPECT_EQ(queue.failures("a"), 1u);
  queue.Done("a");
  queue.Forget("a");
  EXPECT_EQ(queue.failures("a"), 0u);
  const std::string text = registry.RenderText();
  for (const char* line :
       {"adds_total{queue=\"toys\"} 1", "retries_total{queue=\"toys\"} 1",
        "wait_seconds_sum{queue=\"toys\"} 2", "work_seconds_sum{queue=\"toys\"} 3"}) {
    EXPECT_TRUE(absl::StrContains(text, absl::StrCat("capstan_test_kube_work_queue_", line)))
        << text;
  }
  EXPECT_EQ(queue.stats().adds, 1u);
  EXPECT_EQ(queue.stats().retries, 1u);
}

TEST(WorkQueueTest, NoKeyHasTwoWorkersAndNoAddIsLost) {
  const SystemClock clock;
  Queue queue({.initial_backoff = absl::Microseconds(50),
               .max_backoff = absl::Milliseconds(1),
               .bucket_interval = absl::ZeroDuration()},
              &clock);
  absl::Mutex mutex;
  std::map<std::string, int> added, seen, working;
  int clashes = 0;
  std::vector<std::thread> workers;
  for (uint64_t w = 0; w < 4; ++w) {
    workers.emplace_back([&, w] {
      Random random(w);
      while (const absl::optional<std::string> key = queue.Get()) {
        {
          absl::MutexLock lock(&mutex);
          if (++working[*key] > 1) ++clashes;
          seen[*key] = added[*key];
        }
        if (random.OneIn(5)) {
          queue.AddRateLimited(*key);
        } else {
          queue.Forget(*key);
        }
        {
          absl::MutexLock lock(&mutex);
          --working[*key];
        }
        queue.Done(*key);
      }
    });
  }
  Random random(99);
  for (int i = 0; i < 5000; ++i) {
    const std::string key = absl::StrCat("k", random.Below(10));
    {
      absl::MutexLock lock(&mutex);
      ++added[key];
    }
    if (random.OneIn(4)) {
      queue.AddAfter(key, absl::Microseconds(random.Below(100)));
    } else {
      queue.Add(key, static_cast<int>(random.Below(3)) - 1);
    }
  }
  // Delays end by adds of now, so that the drain has everything.
  for (int i = 0; i < 10; ++i) queue.Add(absl::StrCat("k", i));
  queue.ShutDown(/*drain=*/true);
  for (std::thread& worker : workers) worker.join();
  EXPECT_EQ(clashes, 0);
  EXPECT_EQ(seen, added);
}

}  // namespace
}  // namespace capstan::kube
