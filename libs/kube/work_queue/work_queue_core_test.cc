#include "libs/kube/work_queue/work_queue_core.h"

#include <map>
#include <set>
#include <string>

#include "gtest/gtest.h"
#include "libs/random/random.h"

namespace capstan::kube {
namespace {

using Queue = WorkQueueCore<std::string>;

constexpr BootTime At(int64_t milliseconds) {
  return BootTime::FromNanoseconds(milliseconds * 1'000'000);
}

std::string Take(Queue* queue, BootTime now) {
  const auto work = queue->Get(now);
  return work.has_value() ? work->key : "";
}

TEST(WorkQueueCoreTest, AKeyWaitsOnceAndIsWorkedOnOnce) {
  Queue queue;
  queue.Add("a", At(0));
  queue.Add("b", At(0));
  queue.Add("a", At(0));
  EXPECT_EQ(queue.depth(), 2u);
  EXPECT_EQ(Take(&queue, At(1)), "a");
  queue.Add("a", At(2));
  EXPECT_EQ(Take(&queue, At(2)), "b");
  EXPECT_EQ(Take(&queue, At(2)), "");
  EXPECT_EQ(queue.Done("a", At(5)), absl::Milliseconds(4));
  EXPECT_EQ(Take(&queue, At(5)), "a");
  EXPECT_EQ(queue.Done("b", At(5)), absl::Milliseconds(3));
  EXPECT_TRUE(queue.Done("a", At(6)).has_value());
  EXPECT_EQ(Take(&queue, At(7)), "");
  EXPECT_EQ(queue.known(), 0u);
  EXPECT_FALSE(queue.Done("a", At(8)).has_value());
}

TEST(WorkQueueCoreTest, HigherPrioritiesComeFirst) {
  Queue queue;
  queue.Add("low", At(0));
  queue.Add("raised", At(0));
  queue.Add("high", At(0), 1);
  queue.Add("raised", At(0), 2);
  EXPECT_EQ(Take(&queue, At(0)), "raised");
  EXPECT_EQ(Take(&queue, At(0)), "high");
  EXPECT_EQ(Take(&queue, At(0)), "low");
}

TEST(WorkQueueCoreTest, TheEarliestOfSeveralTimesCounts) {
  Queue queue;
  queue.AddAfter("a", absl::Milliseconds(50), At(0));
  queue.AddAfter("a", absl::Milliseconds(20), At(0));
  queue.AddAfter("a", absl::Milliseconds(90), At(0));
  EXPECT_EQ(queue.NextWake(), At(20));
  EXPECT_EQ(Take(&queue, At(19)), "");
  EXPECT_EQ(queue.Get(At(25))->waited, absl::Milliseconds(5));
  EXPECT_TRUE(queue.Done("a", At(26)).has_value());
  EXPECT_EQ(queue.known(), 0u);
}

TEST(WorkQueueCoreTest, FailuresBackOffUntilForgotten) {
  Queue queue;
  BootTime now = At(0);
  absl::Duration expected = absl::Milliseconds(5);
  for (int i = 0; i < 25; ++i) {
    queue.AddRateLimited("a", now);
    EXPECT_EQ(queue.NextWake() - now, expected);
    now = queue.NextWake();
    ASSERT_EQ(Take(&queue, now), "a");
    queue.Done("a", now);
    expected = std::min(expected * 2, absl::Seconds(1000));
  }
  EXPECT_EQ(queue.failures("a"), 25u);
  EXPECT_EQ(queue.retries(), 25u);
  queue.Forget("a");
  EXPECT_EQ(queue.known(), 0u);
}

TEST(WorkQueueCoreTest, TheBucketLimitsAllTogether) {
  Queue queue({.bucket_interval = absl::Seconds(1), .bucket_burst = 2});
  const BootTime now = At(10'000);
  for (const char* key : {"a", "b", "c", "d"}) queue.AddRateLimited(key, now);
  EXPECT_EQ(queue.NextWake(), At(10'005));
  Take(&queue, At(10'005));
  Take(&queue, At(10'005));
  EXPECT_EQ(queue.NextWake(), At(11'000));
  Take(&queue, At(11'000));
  EXPECT_EQ(queue.NextWake(), At(12'000));
}

TEST(WorkQueueCoreTest, RestsBetweenTwoWorksOnAKey) {
  Queue queue({.min_interval = absl::Seconds(1)});
  queue.Add("a", At(0));
  Take(&queue, At(0));
  queue.Done("a", At(100));
  queue.Add("a", At(200));
  EXPECT_EQ(Take(&queue, At(1099)), "");
  EXPECT_EQ(Take(&queue, At(1100)), "a");
  queue.Done("a", At(1100));
  EXPECT_EQ(queue.known(), 1u);
  EXPECT_EQ(Take(&queue, At(2100)), "");
  EXPECT_EQ(queue.known(), 0u);
}

TEST(WorkQueueCoreTest, DrainsOrDrops) {
  for (const bool drain : {true, false}) {
    Queue queue;
    queue.Add("working", At(0));
    queue.Add("ready", At(0));
    queue.AddAfter("later", absl::Seconds(1), At(0));
    ASSERT_EQ(Take(&queue, At(0)), "working");
    queue.Add("working", At(0));
    queue.ShutDown(drain, At(1));
    queue.Add("new", At(1));
    EXPECT_EQ(Take(&queue, At(2)), drain ? "ready" : "");
    if (drain) queue.Done("ready", At(2));
    EXPECT_FALSE(queue.drained());
    queue.Done("working", At(3));
    EXPECT_EQ(Take(&queue, At(3)), drain ? "working" : "");
    if (drain) queue.Done("working", At(4));
    EXPECT_TRUE(queue.drained());
    EXPECT_EQ(Take(&queue, At(9000)), "");
  }
}

// Whatever comes: no key has two workers, no Add after the last Get of a key is lost, intervals are
// kept, and in the end nothing is remembered.
TEST(WorkQueueCoreTest, RandomHistoriesKeepTheRules) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Random random(seed);
    Queue queue({.bucket_interval = absl::Milliseconds(3),
                 .bucket_burst = 5,
                 .min_interval = absl::Milliseconds(seed % 3 * 10)});
    std::set<std::string> owed;
    std::set<std::string> working;
    std::map<std::string, BootTime> done_at;
    int64_t now = 0;
    for (int step = 0; step < 400; ++step) {
      now += static_cast<int64_t>(random.Below(8));
      const std::string key(1, static_cast<char>('a' + random.Below(6)));
      switch (random.Below(5)) {
        case 0:
          queue.Add(key, At(now), static_cast<int>(random.Below(3)));
          owed.insert(key);
          break;
        case 1:
          queue.AddAfter(key, absl::Milliseconds(random.Below(30)), At(now));
          owed.insert(key);
          break;
        case 2:
          if (random.OneIn(2)) {
            queue.AddRateLimited(key, At(now));
            owed.insert(key);
          } else {
            queue.Forget(key);
          }
          break;
        case 3: {
          const std::string got = Take(&queue, At(now));
          if (got.empty()) break;
          ASSERT_TRUE(working.insert(got).second) << "seed " << seed;
          ASSERT_EQ(owed.erase(got), 1u) << "seed " << seed;
          if (done_at.count(got) > 0) {
            ASSERT_GE(At(now) - done_at[got], absl::Milliseconds(seed % 3 * 10));
          }
          break;
        }
        default:
          if (queue.Done(key, At(now)).has_value()) {
            ASSERT_EQ(working.erase(key), 1u);
            done_at[key] = At(now);
          }
      }
    }
    for (int i = 0; i < 1000 && (!owed.empty() || !working.empty()); ++i) {
      now += 1000;
      for (const std::string& key : working) queue.Done(key, At(now));
      working.clear();
      for (std::string got = Take(&queue, At(now)); !got.empty(); got = Take(&queue, At(now))) {
        ASSERT_EQ(owed.erase(got), 1u) << "seed " << seed;
        working.insert(got);
      }
    }
    EXPECT_TRUE(owed.empty()) << "seed " << seed;
    for (char c = 'a'; c < 'g'; ++c) queue.Forget(std::string(1, c));
    EXPECT_EQ(Take(&queue, At(now + 10'000)), "");
    EXPECT_EQ(queue.known(), 0u) << "seed " << seed;
  }
}

}  // namespace
}  // namespace capstan::kube
