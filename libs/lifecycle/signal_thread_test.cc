#include "libs/lifecycle/signal_thread.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace capstan::lifecycle {
namespace {

// Bound on waits for the kernel and the scheduler of a busy machine.
constexpr absl::Duration kPatience = absl::Seconds(20);

class Received {
 public:
  void Add(int signal) {
    absl::MutexLock lock(&mutex_);
    signals_.push_back(signal);
  }
  bool WaitFor(size_t count) {
    absl::MutexLock lock(&mutex_);
    const auto enough = [this, count]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return signals_.size() >= count;
    };
    return mutex_.AwaitWithTimeout(absl::Condition(&enough), kPatience);
  }
  std::vector<int> signals() {
    absl::MutexLock lock(&mutex_);
    return signals_;
  }

 private:
  absl::Mutex mutex_;
  std::vector<int> signals_ ABSL_GUARDED_BY(mutex_);
};

TEST(SignalThreadTest, TakesSignalsOfTheProcess) {
  Received received;
  auto thread = SignalThread::Create({SIGTERM, SIGINT}, [&](int s) { received.Add(s); });
  ASSERT_TRUE(thread.ok()) << thread.status();
  kill(getpid(), SIGTERM);
  ASSERT_TRUE(received.WaitFor(1));
  kill(getpid(), SIGINT);
  ASSERT_TRUE(received.WaitFor(2));
  EXPECT_EQ(received.signals(), (std::vector<int>{SIGTERM, SIGINT}));
}

TEST(SignalThreadTest, EndingItIsNotSeenAsASignal) {
  Received received;
  {
    auto thread = SignalThread::Create({SIGTERM}, [&](int s) { received.Add(s); });
  }
  EXPECT_TRUE(received.signals().empty());
}

TEST(SignalThreadTest, ChildrenCanBeSignalledAfterUnblocking) {
  auto thread = SignalThread::Create({SIGTERM}, [](int) {});
  ASSERT_TRUE(thread.ok());
  const pid_t child = fork();
  if (child == 0) {
    UnblockSignals();
    while (true) pause();
  }
  kill(child, SIGTERM);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
}

TEST(SignalThreadTest, NeedsSignals) {
  EXPECT_FALSE(SignalThread::Create({}, [](int) {}).ok());
}

}  // namespace
}  // namespace capstan::lifecycle
