#include "services/telemetry/adapters/sync_threads.h"

#include <cstddef>
#include <set>
#include <thread>
#include <vector>

#include "absl/synchronization/barrier.h"
#include "absl/synchronization/mutex.h"
#include "gtest/gtest.h"

namespace capstan::telemetry {
namespace {

TEST(SyncThreadsTest, EachIsDoneOnce) {
  SyncThreads threads(3);
  for (size_t count = 0; count < 40; ++count) {
    absl::Mutex mutex;
    std::multiset<size_t> done;
    threads.Run(count, [&](size_t number) {
      absl::MutexLock lock(&mutex);
      done.insert(number);
    });
    std::multiset<size_t> expected;
    for (size_t i = 0; i < count; ++i) expected.insert(i);
    EXPECT_EQ(done, expected);
  }
}

TEST(SyncThreadsTest, AsManyAtOnceAsThereAreThreadsAndTheCaller) {
  SyncThreads threads(3);
  // Each waits for the others.
  auto* const barrier = new absl::Barrier(4);
  threads.Run(4, [&](size_t) {
    if (barrier->Block()) delete barrier;
  });
}

TEST(SyncThreadsTest, OneIsTheCallersOwn) {
  SyncThreads threads(2);
  std::thread::id where;
  threads.Run(1, [&](size_t) { where = std::this_thread::get_id(); });
  EXPECT_EQ(where, std::this_thread::get_id());
}

TEST(SyncThreadsTest, WithoutThreadsTheCallerDoesAll) {
  SyncThreads threads(0);
  std::vector<size_t> done;
  threads.Run(3, [&](size_t number) { done.push_back(number); });
  EXPECT_EQ(done, (std::vector<size_t>{0, 1, 2}));
}

}  // namespace
}  // namespace capstan::telemetry
